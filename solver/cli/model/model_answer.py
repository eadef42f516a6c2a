"""A model under an engine: its figures, what was assumed, and the problem, as text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvplan.models import InvalidProblem
from kvplan.solver.advise import optimizer_of
from kvplan.solver.advise.launched import launched
from kvplan.solver.advise.starting import starting_settings
from kvplan.solver.cli.model.model_compared import Asked, compared
from kvplan.solver.cli.model.model_text import advice_text, assumed_text, comment_text
from kvplan.solver.report.problem_text import problem_text

if TYPE_CHECKING:
    from kvplan.models import Problem
    from kvplan.models.engines.layers import Architecture
    from kvplan.models.engines.registry import Settings
    from kvplan.solver.advise.advice import Advice


class Answer:
    """A model under an engine: what it prints, what was assumed, and the problem."""

    def __init__(self, asked: Asked) -> None:
        self.asked, self.settings = asked, asked.settings[0]
        self.adapter, self.architecture = asked.adapter, asked.architecture
        self.problem: Problem = self.adapter.build(self.architecture, self.settings)
        self.figures, self.refused = figures_of(
            self.adapter, self.architecture, self.settings, self.problem
        )

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

    def printed(self, *, optimize: bool, mean_tokens: int | None, as_json: bool) -> int:
        """Compare with the lines of a log, and print; 1 where a figure differs."""
        differences = self._differences()
        advice = self._advice(mean_tokens) if optimize else None
        sys.stdout.write(self._json(advice) if as_json else self._text(advice))
        for line in differences:
            print(line, file=sys.stderr)
        return 1 if differences else 0

    def _differences(self) -> list[str]:
        if not self.asked.expected:
            return []
        return compared(self.asked, self.problem, self.figures, figures_of)

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
        optimize = optimizer_of(self.adapter)
        if optimize is None:
            raise InvalidProblem.at("--optimize", "an engine with a setting to choose", "none")
        requests = (request for batch in self.problem.batches for request in batch.requests)
        longest = max((request.capacity for request in requests), default=0)
        mean = mean_tokens or longest or self.architecture.max_positions
        return optimize(self.architecture, self.settings, mean)


def figures_of(
    adapter: Any, architecture: Architecture, settings: Settings, problem: Problem
) -> tuple[Mapping[str, str], bool]:
    """The engine's figures from the plan, or from its refusal where there is none."""
    start = launched(adapter, architecture, settings, problem)
    if start.plan is not None:
        return start.figures, False
    more = starting_settings(adapter, architecture, settings, problem)
    return {**start.figures, **more}, True
