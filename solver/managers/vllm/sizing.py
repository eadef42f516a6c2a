"""One start of vLLM under kvplan: what is read, chosen, compared and logged."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.models.engines.vllm.pool_problem import POOL
from kvplan.models.errors import Infeasible, InvalidProblem
from kvplan.models.problem import Problem
from kvplan.solver.managers.environment import Settings, is_strict, settings_of
from kvplan.solver.managers.guard import Guard
from kvplan.solver.managers.texts import budget_text, gain, refusal_text, splits_text
from kvplan.solver.managers.vllm.applied_layout import Applied, fitted, laid_out, load_layout
from kvplan.solver.managers.vllm.configs import Configs, difference
from kvplan.solver.managers.vllm.groups import Deal, by_width, group_sizes
from kvplan.solver.managers.vllm.start import Start, start_of
from kvplan.solver.managers.vllm.widths import Grouping, best_grouping, own_grouping
from kvplan.solver.managers.workload import Workload, load_workload
from kvplan.solver.solve.plan import plan

LOG = logging.getLogger("vllm.kvplan")  # below vLLM's own, so that its handlers print it


def vllm_version() -> str:
    """Version of the vLLM that runs here."""
    return str(sys.modules["vllm"].__version__)


class Sizing:
    """What kvplan does at one start.

    Parameters
    ----------
    version : of vLLM.
    environment : KVPLAN and its companions.

    Raises
    ------
    StartRefused : the environment is wrong, and the start is strict.
    """

    def __init__(self, version: str, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self.version = version
        self.guard = Guard(f"vLLM {version}", LOG, strict=is_strict(environment))
        self.settings = self.guard.attempt(lambda: settings_of(environment)) or Settings()

    def read(
        self, config: Any, specs: Sequence[Mapping[str, Any]], available: Sequence[int]
    ) -> Start | None:
        """Read the start before vLLM changes it (auto-fit shortens the length)."""
        if self.settings.mode == "off":
            return None
        return self.guard.attempt(lambda: start_of(config, specs, available, self.version))

    def deal(self, start: Start) -> Deal | None:
        """How to deal the layers, after both layouts are logged; None keeps vLLM's own groups."""
        if self.settings.mode != "apply":
            return None
        return self.guard.attempt(lambda: self._deal(start))

    def _deal(self, start: Start) -> Deal | None:
        if self.settings.layout_file is None:
            grouping = self._announced(start)
            return None if grouping is None else by_width(grouping.group_layers)
        applied = self._laid(start)
        LOG.info("kvplan: the layout of %s\n%s", self.settings.layout_file, applied.text)
        return lambda groups, specs: laid_out(applied.layout, groups, specs)

    def _laid(self, start: Start) -> Applied:
        """The layout file, checked against the layers of this start."""
        assert self.settings.layout_file is not None
        return fitted(start, load_layout(self.settings.layout_file))

    def _announced(self, start: Start) -> Grouping | None:
        workload = self._workload(start)
        own = own_grouping(start, workload)
        best = best_grouping(start, workload, self.settings.most_groups)
        if not best.group_layers:
            LOG.info("kvplan: vLLM's %s hold the most of the workload", own.split.label)
            return None
        more = gain(own.split.requests, best.split.requests)
        rows = [("vLLM's own", own.split), ("kvplan", best.split)]
        text = splits_text(rows, start.workers[0].quota_bytes)
        LOG.info("kvplan: %s hold %s of the workload\n%s", best.split.label, more, text)
        return best

    def agrees(self, start: Start, configs: Configs) -> bool:
        """Log what vLLM sized beside what kvplan plans with the same groups; whether they agree."""
        return bool(self.guard.attempt(lambda: self._agrees(start, configs)))

    def _agrees(self, start: Start, configs: Configs) -> bool:
        sizes, blocks = group_sizes(configs), int(configs[0].num_blocks)
        problem = self._problem(start, configs)
        answer = plan(problem)
        LOG.info("kvplan: the budget\n%s", budget_text(answer, problem))
        word = f"{len(sizes)} group{'' if len(sizes) == 1 else 's'} of layers"
        different = difference(answer, configs)
        if different is not None:
            where, expected, got = different
            self.guard.fail(f"{where}: vLLM sized {got}, kvplan expects {expected}, in {word}")
            return False
        LOG.info("kvplan: vLLM %s and kvplan agree: %d blocks, %s", self.version, blocks, word)
        return True

    def _problem(self, start: Start, configs: Configs) -> Problem:
        """The problem of the groups that vLLM was given: those of the layout file, or a width's."""
        if self.settings.mode == "apply" and self.settings.layout_file is not None:
            applied = self._laid(start)
            if applied.is_in(configs):
                return applied.problem
        return start.problem(_width(start, group_sizes(configs)))

    def suggest(self, start: Start) -> None:
        """In check mode with a workload, log the split that apply would take."""
        if self.settings.mode == "check" and self.settings.workload_file is not None:
            self.guard.attempt(lambda: self._announced(start))

    def explain(self, start: Start) -> None:
        """Beside vLLM's refusal: what falls short, and the smallest changes that start."""
        self.guard.attempt(lambda: LOG.error("kvplan: %s", _refusal(start.problem())))

    def _workload(self, start: Start) -> Workload:
        """The workload file, or one request of the longest length."""
        if self.settings.workload_file is None:
            return Workload(requests=[{"capacity": start.serving.length_tokens}])
        return load_workload(self.settings.workload_file)


def _width(start: Start, sizes: tuple[int, ...]) -> int:
    """The width of the groups that vLLM was given; 0 where they are its own.

    Raises
    ------
    InvalidProblem : groups that neither vLLM's rule nor a width of them makes.
    """
    for width in (0, max(sizes, default=0)):
        if sizes == tuple(len(group.layers) for group in start.layout(width).groups):
            return width
    expected = f"groups of {[len(group.layers) for group in start.layout().groups]} layers"
    raise InvalidProblem.at("kv_cache_groups", expected, f"{list(sizes)}")


def _refusal(problem: Problem) -> str:
    """Text of a refusal.

    Raises
    ------
    InvalidProblem : kvplan finds a plan, so that vLLM refuses for a reason of its own.
    """
    try:
        answer = plan(problem)
    except Infeasible as refusal:
        return refusal_text(refusal)
    expected = "a start that does not fit (vLLM refuses it)"
    raise InvalidProblem.at("kv_cache_specs", expected, f"{answer.blocks[POOL]} blocks that do")
