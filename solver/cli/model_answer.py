"""A model under an engine: its figures, what was assumed, and the problem, as text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvplan.models import Infeasible, InvalidProblem
from kvplan.solver import plan
from kvplan.solver.cli.model_text import (
    advice_text,
    assumed_text,
    check_lines,
    comment_text,
    problem_text,
)

if TYPE_CHECKING:
    from kvplan.models import Problem
    from kvplan.models.engines.advice import Advice
    from kvplan.models.engines.layers import Architecture
    from kvplan.models.engines.registry import Settings


class Answer:
    """A model under an engine: what it prints, what was assumed, and the problem."""

    def __init__(self, adapter: Any, architecture: Architecture, settings: Settings) -> None:
        self.adapter, self.architecture, self.settings = adapter, architecture, settings
        self.problem: Problem = adapter.build(architecture, settings)
        self.figures, self.refused = self._figures()

    @property
    def title(self) -> str:
        """What the figures are."""
        return "the engine refuses to start" if self.refused else "what the engine prints"

    @property
    def assumed(self) -> tuple[str, ...]:
        """One line for each value that nobody gave, with the reason; and on the command line."""
        derive = getattr(self.adapter, "assumptions", None)
        derived = tuple(derive(self.architecture, self.settings)) if derive else ()
        return (*derived, *self.settings.notes)

    def _figures(self) -> tuple[Mapping[str, str], bool]:
        """The engine's figures from the plan, or from its refusal where there is none."""
        given = (self.architecture, self.settings)
        try:
            answer = plan(self.problem)
        except Infeasible as refusal:
            if hasattr(self.adapter, "refusal"):
                return self.adapter.refusal(*given), True
            return {"refused": refusal.reasons[0]}, True
        return self.adapter.figures(*given, self.problem, answer), False

    def printed(
        self,
        expected: tuple[str, ...],
        *,
        optimize: bool,
        mean_tokens: int | None,
        as_json: bool,
    ) -> int:
        """Compare, and print."""
        differences = check_lines(self.figures, expected)
        advice = self._advice(mean_tokens) if optimize else None
        sys.stdout.write(self._json(advice) if as_json else self._text(advice))
        for line in differences:
            print(line, file=sys.stderr)
        return 1 if differences else 0

    def _text(self, advice: Advice | None) -> str:
        return (
            comment_text(self.title, self.figures)
            + assumed_text(self.assumed)
            + (advice_text(advice) if advice else "")
            + problem_text(self.problem)
        )

    def _json(self, advice: Advice | None) -> str:
        document: dict[str, Any] = {
            "refused": self.refused,
            "figures": dict(self.figures),
            "assumed": list(self.assumed),
            "problem": {
                "version": 1,
                **self.problem.model_dump(mode="json", exclude_unset=True),
            },
        }
        if advice:
            document["advice"] = {
                "set": dict(advice.flags),
                "requests": list(advice.requests),
                "bound": advice.bound,
            }
        return json.dumps(document, indent=2) + "\n"

    def _advice(self, mean_tokens: int | None) -> Advice:
        if not hasattr(self.adapter, "optimize"):
            raise InvalidProblem.at("--optimize", "an engine with a setting to choose", "none")
        requests = (request for batch in self.problem.batches for request in batch.requests)
        longest = max((request.capacity for request in requests), default=0)
        mean = mean_tokens or longest or self.architecture.max_positions
        advice: Advice = self.adapter.optimize(self.architecture, self.settings, mean, plan)
        return advice
