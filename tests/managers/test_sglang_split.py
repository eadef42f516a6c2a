"""SGLang's pools as a problem, and its hooks, on recorded figures, without SGLang."""

from __future__ import annotations

import logging
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local
from types import SimpleNamespace
from typing import Any

import pytest

from kvplan.models import Infeasible
from kvplan.solver import plan
from kvplan.solver.agree import Hub
from kvplan.solver.managers import sglang
from kvplan.solver.managers.guard import LeftAlone, StartRefused
from kvplan.solver.managers.sglang import hooks, splitting
from kvplan.solver.managers.sglang.start import (
    FULL,
    STATE,
    TOKENS,
    WINDOW,
    Serving,
    own_windows,
    question,
    states_of,
    windows_of,
)
from kvplan.solver.managers.workload import Workload

GIB = 1 << 30
MIX = Workload(mix=[{"capacity": 1000, "share": 3}, {"capacity": 8000, "share": 1}])
SERVING = Serving(8192, slots=3)


def windows(name: str = "HybridSWAPoolConfigurator", **changes: Any) -> Any:
    """A configurator as SGLang builds it; gpt-oss-120b's figures."""
    fields = {
        "_page_size": 1,
        "_sliding_window_size": 128,
        "_swa_full_tokens_ratio": 0.8,
        "_full_cell_bytes": lambda: 36_864,
        "_swa_cell_bytes": lambda: 36_864,
        "_make_pool_config": lambda full, swa: SimpleNamespace(
            full_max_total_num_tokens=full, swa_max_total_num_tokens=swa
        ),
        **changes,
    }
    made = type(name, (), {})()
    vars(made).update(fields)
    return made


def plain(cell: int = 24_576) -> Any:
    made = type("DefaultPoolConfigurator", (), {})()
    vars(made).update({"_cell_size": cell, "_fixed_overhead_bytes": 0})
    return made


RECORDED = [
    ({}, 16, (258_907, 207_125)),
    (
        {"_full_cell_bytes": lambda: 23_040, "_swa_cell_bytes": lambda: 199_680},
        16,
        (93_990, 75_192),
    ),
    ({"_page_size": 64}, 16, (258_880, 207_104)),
]
"""What the real configurator answered (SGLang 0.5.23): figures, GiB, full and window tokens."""


@pytest.mark.parametrize(("changes", "gib", "tokens"), RECORDED)
def test_sglangs_own_rule(changes: Any, gib: int, tokens: tuple[int, int]) -> None:
    assert tuple(own_windows(windows(**changes), gib * GIB).values()) == tokens


def test_windows_are_split_for_the_workload() -> None:
    start = windows_of(windows(), 16 * GIB, SERVING, MIX)
    answer = plan(question(windows(), 16 * GIB, MIX, SERVING))
    kept = 2 * 8192 + 16 * 129  # chunks in flight, and windows of cached prefixes
    assert start.data["pools"][1]["reserved_blocks"] == kept
    held = (128 + 128) * 4  # of one copy: four requests, window and tokens between evictions
    full = 3 * 1000 + 8000
    running = answer.blocks[WINDOW] - kept
    assert running * full == pytest.approx(answer.blocks[FULL] * held, rel=1e-3)
    assert answer.ranks[0].slack < 36_864


def test_states_are_split_for_the_workload() -> None:
    slot = 77_266_944
    answer = plan(question(plain(), 12 * GIB, MIX, SERVING, slot_bytes=slot))
    assert (answer.blocks[STATE] - 1) % 3 == 0
    at_once = (answer.blocks[STATE] - 1) / 3  # three slots a request, and the padding slot
    assert answer.blocks[TOKENS] == pytest.approx(at_once * 2750, rel=0.05)
    assert answer.ranks[0].slack < slot


def test_a_quota_below_what_is_kept_is_infeasible() -> None:
    with pytest.raises(Infeasible, match="short by"):
        plan(question(windows(), GIB // 2, MIX, SERVING))


@pytest.mark.parametrize("name", ["DSV4PoolConfigurator", "SWARequestCapPoolConfigurator"])
def test_other_pools_are_left_alone_by_name(name: str) -> None:
    with pytest.raises(LeftAlone, match=name):
        windows_of(windows(name), GIB, SERVING, MIX)
    with pytest.raises(LeftAlone, match=name):
        states_of(windows(name), 1, GIB, 1, SERVING)


def test_one_pool_is_left_alone() -> None:
    with pytest.raises(LeftAlone, match="one pool"):
        windows_of(windows(_full_cell_bytes=lambda: 0), GIB, SERVING, MIX)
    with pytest.raises(LeftAlone, match="nothing to split"):
        states_of(plain(0), 1, GIB, 1, SERVING)


class Registry:
    """HookRegistry."""

    _hooks: Any

    @classmethod
    def register(cls, target: str, hook: Any, kind: str) -> None:
        cls._hooks[target].append((kind, hook, None))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """SGLang's modules as far as the hooks read them."""
    schedule = SimpleNamespace(
        chunked_prefill_size=8192,
        disable_overlap_schedule=False,
        max_total_tokens=None,
        max_mamba_cache_size=None,
        max_running_requests=None,
        mamba_full_memory_ratio=0.9,
    )
    memory = SimpleNamespace(enable_unified_memory=False, disable_radix_cache=False)
    parallel = SimpleNamespace(launch_world_size=1)
    context = SimpleNamespace(
        get_schedule=lambda: schedule,
        get_memory=lambda: memory,
        get_parallel=lambda: parallel,
        get_context=lambda: SimpleNamespace(
            override=lambda source, **fields: vars(schedule).update(fields)
        ),
    )
    made = SimpleNamespace(schedule=schedule, memory=memory, parallel=parallel, made=windows())
    interval = SimpleNamespace(SGLANG_SWA_EVICTION_INTERVAL=SimpleNamespace(get=lambda: 128))
    Registry._hooks = defaultdict(list)
    modules = {
        "sglang": SimpleNamespace(__version__="0.5.23"),
        "sglang.srt.runtime_context": context,
        "sglang.srt.environ": SimpleNamespace(envs=interval),
        "sglang.srt.model_executor.pool_configurator": SimpleNamespace(
            create_memory_pool_configurator=lambda kvc: made.made
        ),
        "sglang.srt.plugins.hook_registry": SimpleNamespace(
            HookRegistry=Registry, HookType=SimpleNamespace(AROUND="around")
        ),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("KVPLAN", "KVPLAN_WORKLOAD", "KVPLAN_STRICT"):
        monkeypatch.delenv(name, raising=False)
    return made


def configurator(**changes: Any) -> Any:
    """A KVCacheConfigurator."""
    fields = {
        "is_hybrid_swa": True,
        "is_draft_worker": False,
        "spec_algorithm": SimpleNamespace(is_none=lambda: True),
        "pp_size": 1,
        "page_size": 1,
        "attn_dp_size": 2,
        "model_config": SimpleNamespace(context_len=32768),
        "extra_mamba_cache_bytes_per_req": 0,
        "mambaish_config": SimpleNamespace(
            mamba2_cache_params=SimpleNamespace(mamba_cache_per_req=77_266_944)
        ),
        "_calculate_mamba_ratio": lambda: 3,
        **changes,
    }
    return SimpleNamespace(**fields)


def own(kvc: Any, budget: int, **_: Any) -> Any:
    full, swa = own_windows(windows(), budget).values()
    return SimpleNamespace(full_max_total_num_tokens=full, swa_max_total_num_tokens=swa)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, splitting.LOG.name):
        yield caplog


def sized(mode: str, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> tuple[int, int]:
    monkeypatch.setenv("KVPLAN", mode)
    config = hooks.around_budget(own, configurator(**changes), 16 * GIB)
    return config.full_max_total_num_tokens, config.swa_max_total_num_tokens


OWN = RECORDED[0][2]


@pytest.mark.usefixtures("server")
def test_off_check_and_apply(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    assert sized("off", monkeypatch) == OWN
    assert log.text == ""
    assert sized("check", monkeypatch) == OWN
    assert "kvplan: check: its split holds" in log.text
    assert "SGLang's own  258_907  207_125" in log.text
    full, window = sized("apply", monkeypatch)
    assert full > OWN[0]
    assert window < OWN[1]


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("strict", ["0", "1"])
def test_a_rule_that_differs_warns_or_refuses(
    strict: str, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(splitting, "own_windows", lambda *_: {FULL: 1, WINDOW: 1})
    monkeypatch.setenv("KVPLAN_STRICT", strict)
    if strict == "1":
        with pytest.raises(StartRefused, match="258907"):
            sized("apply", monkeypatch)
        return
    assert sized("apply", monkeypatch) == OWN
    assert [record.levelno for record in log.records] == [logging.WARNING]


ALONE: dict[str, dict[str, Any]] = {
    "speculative": {"spec_algorithm": SimpleNamespace(is_none=lambda: False)},
    "draft": {"is_draft_worker": True},
    "pipeline": {"pp_size": 2},
}


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("word", ALONE)
def test_what_is_not_modelled_is_left_alone(
    word: str, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KVPLAN_STRICT", "1")
    assert sized("apply", monkeypatch, **ALONE[word]) == OWN
    assert word in log.text
    assert "SGLang 0.5.23 sizes alone" in log.text


@pytest.mark.parametrize("setting", ["max_total_tokens", "unified"])
def test_caps_and_one_memory_are_left_alone(
    setting: str, server: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting == "unified":
        server.memory.enable_unified_memory = True
    else:
        server.schedule.max_total_tokens = 1000
    assert sized("apply", monkeypatch) == OWN


def slots(server: SimpleNamespace, kvc: Any, gib: float) -> int:
    """Slots after a start; SGLang's own rule takes them from the ratio where none are given."""

    def own_states(kvc: Any, total: float) -> float:
        return total

    server.made = plain()
    hooks.around_states(own_states, kvc, gib)
    found: int = server.schedule.max_mamba_cache_size
    return found


def test_states_are_set_before_sglang_counts_them(
    server: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text("quantiles: {p50: 600, p99: 3000}\n")
    monkeypatch.setenv("KVPLAN_WORKLOAD", str(path))
    monkeypatch.setenv("KVPLAN", "check")
    assert slots(server, configurator(), 12.0) is None
    monkeypatch.setenv("KVPLAN", "apply")
    given = slots(server, configurator(), 12.0)
    assert given % 2 == 0  # of both attention DP replicas
    assert given // 2 > 78
    server.schedule.max_mamba_cache_size = 10
    assert slots(server, configurator(), 12.0) == 10


@pytest.mark.usefixtures("server")
def test_register_hooks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sglang.register()
    assert not Registry._hooks
    monkeypatch.setenv("KVPLAN", "check")
    sglang.register()
    sglang.register()
    assert {target.rsplit(".", 1)[1]: len(found) for target, found in Registry._hooks.items()} == {
        hooks.BUDGET: 1,
        hooks.STATES: 1,
    }


@pytest.mark.usefixtures("server")
def test_an_unknown_version_warns(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "sglang", SimpleNamespace(__version__="0.6.0"))
    monkeypatch.setenv("KVPLAN", "apply")
    sglang.register()
    assert "SGLang: expected 0.5.23, got 0.6.0" in log.text
    assert not Registry._hooks


@pytest.mark.parametrize("less", [False, True])
def test_ranks_agree_on_the_split_of_the_one_with_least(
    less: bool, server: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four ranks, each with its own question to SGLang."""
    hub, mine = Hub(), local()

    class Group:
        cpu_group = None

        @property
        def rank_in_group(self) -> int:
            rank: int = mine.rank
            return rank

    server.parallel.launch_world_size, server.parallel.world_group = 4, Group()
    monkeypatch.setattr(splitting, "TorchComm", lambda *_, name: hub.comm(mine.rank, range(4)))
    monkeypatch.setattr(splitting, "TIMEOUT_SECONDS", 10.0)
    monkeypatch.setenv("KVPLAN", "apply")

    def start(rank: int) -> tuple[int, int]:
        mine.rank = rank
        budget = 16 * GIB - (less and rank == 2) * (1 << 28)
        config = hooks.around_budget(own, configurator(), budget)
        return config.full_max_total_num_tokens, config.swa_max_total_num_tokens

    with ThreadPoolExecutor(4) as ranks:
        found = list(ranks.map(start, range(4)))
    assert len(set(found)) == 1
    full, window = found[0]
    assert full > OWN[0]
    taken = (full + window) * 36_864
    assert (16 * GIB - taken < 36_864 * 2) == (not less)
