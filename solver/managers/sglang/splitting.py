"""One start of SGLang under kvplan: what is read, agreed between ranks, compared and logged."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from fractions import Fraction
from importlib import import_module
from typing import Any

from kvplan.models.measured.local import LocalView
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem
from kvplan.solver.agree import Comm, NullComm, TorchComm, plan_together
from kvplan.solver.managers.environment import Settings, is_strict, settings_of
from kvplan.solver.managers.guard import Guard, LeftAlone
from kvplan.solver.managers.mix import requests_at_once
from kvplan.solver.managers.sglang.start import (
    FULL,
    STATE,
    TOKENS,
    WINDOW,
    Serving,
    Start,
    apply,
    own_windows,
    states_of,
    windows_of,
)
from kvplan.solver.managers.texts import Split, budget_text, gain, splits_text
from kvplan.solver.managers.workload import Workload, load_workload

LOG = logging.getLogger("sglang.kvplan")
GIB = 2**30
TIMEOUT_SECONDS = 60.0


class Splitting:
    """What kvplan does at one start.

    Raises
    ------
    StartRefused : the environment is wrong, and the start is strict.
    """

    def __init__(self, version: str, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self.guard = Guard(f"SGLang {version}", LOG, strict=is_strict(environment))
        self.settings = self.guard.attempt(lambda: settings_of(environment)) or Settings()

    @property
    def is_off(self) -> bool:
        """Whether SGLang sizes alone."""
        return self.settings.mode == "off"

    def windows(self, kvc: Any, budget_bytes: int, own: Any, *, limited: bool) -> Any:
        """The pool configuration to use instead of SGLang's own; None where that stays."""
        return self.guard.attempt(lambda: self._windows(kvc, budget_bytes, own, limited=limited))

    def _windows(self, kvc: Any, budget_bytes: int, own: Any, *, limited: bool) -> Any:
        if not kvc.is_hybrid_swa:
            return None
        _check_modelled(kvc, limited=limited)
        pools = import_module("sglang.srt.model_executor.pool_configurator")
        configurator = pools.create_memory_pool_configurator(kvc)
        workload = self._workload(kvc)
        start = windows_of(configurator, budget_bytes, serving_of(kvc), workload)
        theirs = {FULL: own.full_max_total_num_tokens, WINDOW: own.swa_max_total_num_tokens}
        expected = own_windows(configurator, budget_bytes)
        if theirs != expected:
            self.guard.fail(f"SGLang sized {theirs} tokens, kvplan expects {expected} of its rule")
            return None
        page = start.page_tokens
        blocks = {pool: tokens // page for pool, tokens in theirs.items()}
        answer = self._chosen(start, workload, blocks)
        return None if answer is None else apply(answer, configurator)

    def states(self, kvc: Any, total_gib: float) -> int | None:
        """Slots of one replica to use instead of SGLang's own; None where its rule stays."""
        return self.guard.attempt(lambda: self._states(kvc, total_gib))

    def _states(self, kvc: Any, total_gib: float) -> int | None:
        context = import_module("sglang.srt.runtime_context")
        schedule = context.get_schedule()
        _check_modelled(kvc)
        if schedule.max_mamba_cache_size is not None:
            raise LeftAlone("--max-mamba-cache-size is given")
        if context.get_memory().disable_radix_cache and schedule.max_running_requests is not None:
            raise LeftAlone("--max-running-requests gives the slots without a radix cache")
        slot = int(kvc.mambaish_config.mamba2_cache_params.mamba_cache_per_req)
        slot += int(kvc.extra_mamba_cache_bytes_per_req)
        pools = import_module("sglang.srt.model_executor.pool_configurator")
        configurator = pools.create_memory_pool_configurator(kvc)
        quota = int(Fraction(total_gib) * GIB)
        serving = serving_of(kvc, slots=int(kvc._calculate_mamba_ratio()))
        start = states_of(configurator, slot, quota, int(kvc.page_size), serving)
        ratio = Fraction(str(schedule.mamba_full_memory_ratio))
        slots = int((start.quota_bytes * ratio / (1 + ratio) - slot) // slot) + 1
        rest = start.quota_bytes - slots * slot
        own = {TOKENS: rest // int(start.data["pools"][0]["bytes"]), STATE: slots}
        answer = self._chosen(start, self._workload(kvc), own)
        return None if answer is None else answer.blocks[STATE] - 1

    def _chosen(self, start: Start, workload: Workload, own: Mapping[str, int]) -> Plan | None:
        """Log both splits; the plan to apply, or None."""
        answer, problem = _agreed(start, workload)
        theirs = requests_at_once(start.data, own, workload)
        rows = [
            ("SGLang's own", Split("", dict(own), theirs)),
            ("kvplan", Split("", dict(answer.blocks), answer.scale or Fraction(0))),
        ]
        LOG.info("kvplan: the budget\n%s", budget_text(answer, problem))
        before, after = (split.requests for _, split in rows)
        LOG.info(
            "kvplan: %s: its split holds %s of the workload\n%s",
            self.settings.mode,
            gain(before, after),
            splits_text(rows, start.quota_bytes),
        )
        return answer if self.settings.mode == "apply" and after > before else None

    def _workload(self, kvc: Any) -> Workload:
        """The workload file, or one request of the longest context."""
        if self.settings.workload_file is not None:
            return load_workload(self.settings.workload_file)
        return Workload(requests=[{"capacity": int(kvc.model_config.context_len)}])


def serving_of(kvc: Any, slots: int = 1) -> Serving:
    """Read the settings that pools depend on."""
    context = import_module("sglang.srt.runtime_context")
    envs = import_module("sglang.srt.environ").envs
    schedule = context.get_schedule()
    chunk = int(schedule.chunked_prefill_size or 0)
    if chunk <= 0 and kvc.is_hybrid_swa:
        raise LeftAlone("without chunked prefill a window pool holds whole prompts")
    overlaps = not schedule.disable_overlap_schedule
    interval = max(1, int(envs.SGLANG_SWA_EVICTION_INTERVAL.get()))
    return Serving(max(chunk, 0), 2 if overlaps else 1, interval, slots)


def _check_modelled(kvc: Any, *, limited: bool = False) -> None:
    """Leave alone what is not modelled yet.

    Raises
    ------
    LeftAlone : draft workers, speculation, pipeline stages, one memory for all pools, or a cap on
        the tokens.
    """
    context = import_module("sglang.srt.runtime_context")
    if kvc.is_draft_worker or not kvc.spec_algorithm.is_none():
        raise LeftAlone("speculative decoding (draft pools and states) is not modelled")
    if kvc.pp_size > 1:
        raise LeftAlone("pipeline stages with pools of their own are not modelled")
    if context.get_memory().enable_unified_memory:
        raise LeftAlone("--enable-unified-memory leaves nothing to split")
    if limited or context.get_schedule().max_total_tokens is not None:
        raise LeftAlone("--max-total-tokens caps the pools")


def _agreed(start: Start, workload: Workload) -> tuple[Plan, Problem]:
    """The plan of all ranks, and the problem of this one.

    Raises
    ------
    AgreementFailed : ranks that differ, or that do not answer within a minute.
    """
    parallel = import_module("sglang.srt.runtime_context").get_parallel()
    comm: Comm = NullComm()
    if parallel.launch_world_size > 1:
        comm = TorchComm(parallel.world_group.cpu_group, name="kvplan-sglang")
        start = start.on(f"rank{parallel.world_group.rank_in_group}")
    problem = start.problem(workload)
    view = LocalView.of(problem, problem.ranks[0])
    return plan_together(view, comm, TIMEOUT_SECONDS), problem
