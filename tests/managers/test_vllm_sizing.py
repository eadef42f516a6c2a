"""One start of vLLM under kvplan, on recorded objects and a planning function of the same shape."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kvplan.models import Infeasible
from kvplan.solver import plan
from kvplan.solver.managers import vllm
from kvplan.solver.managers.guard import LeftAlone, StartRefused
from kvplan.solver.managers.vllm import builder, functions, seams
from kvplan.solver.managers.vllm.groups import regroup
from kvplan.solver.managers.vllm.sizing import LOG
from kvplan.solver.managers.vllm.start import start_of
from kvplan.solver.managers.vllm.widths import _grouping, best_grouping
from kvplan.solver.managers.workload import Workload
from support.vllm_planning import (
    AVAILABLE,
    LEAST_BLOCKS,
    VERSION,
    Engine,
    Group,
    config,
    specs,
)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, LOG.name):
        yield caplog


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__=VERSION))
    for name in ("KVPLAN", "KVPLAN_WORKLOAD", "KVPLAN_STRICT", "KVPLAN_MAX_GROUPS"):
        monkeypatch.delenv(name, raising=False)
    return Engine()


def sized(engine: Engine, memory: int = AVAILABLE, **changes: Any) -> list[int]:
    """Sizes of the groups after a start."""
    wrapped = functions.wrap(engine.get_kv_cache_configs, engine)
    (configs,) = wrapped(config(**changes), [specs()], [memory])
    return [len(group.layer_names) for group in configs.kv_cache_groups]


OWN = [4, 4, 4, 4, 3, 3, 3, 4]
PLANNED = [2] * 12 + [1, 2, 2]


def workload(folder: Path, monkeypatch: pytest.MonkeyPatch, tokens: int = 3000) -> None:
    path = folder / "workload.yaml"
    path.write_text(f"requests: [{{capacity: {tokens}}}]\n")
    monkeypatch.setenv("KVPLAN_WORKLOAD", str(path))


def test_off_does_nothing(engine: Engine, log: pytest.LogCaptureFixture) -> None:
    assert sized(engine) == OWN
    assert log.text == ""


def test_check_logs_a_verdict_and_the_budget(
    engine: Engine, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVPLAN", "check")
    assert sized(engine) == OWN
    assert "kvplan: vLLM 0.32.0 and kvplan agree: 2048 blocks, 8 groups of layers" in log.text
    assert "budget of worker0" in log.text
    assert log.records[-1].levelno == logging.INFO


def test_check_suggests_the_split_of_the_workload(
    engine: Engine,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("KVPLAN", "check")
    workload(tmp_path, monkeypatch)
    assert sized(engine) == OWN
    assert "15 groups of 2 layers hold 2.9 % more of the workload" in log.text


def test_a_count_that_differs_warns_and_stays(
    engine: Engine, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVPLAN", "check")
    engine.extra_blocks = 1
    assert sized(engine) == OWN
    (warning,) = [record for record in log.records if record.levelno == logging.WARNING]
    assert "vLLM sized 2049, kvplan expects 2048 blocks" in warning.getMessage()


def test_strict_refuses_a_count_that_differs(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVPLAN", "check")
    monkeypatch.setenv("KVPLAN_STRICT", "1")
    engine.extra_blocks = 1
    with pytest.raises(StartRefused, match="2049, kvplan expects 2048 blocks"):
        sized(engine)


def test_apply_deals_the_groups_anew(
    engine: Engine,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("KVPLAN", "apply")
    workload(tmp_path, monkeypatch)
    own = engine.get_kv_cache_groups
    assert sized(engine) == PLANNED
    assert engine.get_kv_cache_groups == own  # put back
    assert log.text.index("vLLM's own") < log.text.index("agree: 4096 blocks, 15 groups")


def test_a_cap_on_the_groups_holds(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KVPLAN", "apply")
    monkeypatch.setenv("KVPLAN_MAX_GROUPS", "14")
    workload(tmp_path, monkeypatch)
    assert len(sized(engine)) <= 14


def test_apply_falls_back_to_vllms_own_where_the_counts_differ(
    engine: Engine,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("KVPLAN", "apply")
    workload(tmp_path, monkeypatch)
    engine.extra_blocks = 1
    assert sized(engine) == OWN
    assert len([r for r in log.records if r.levelno == logging.WARNING]) == 1  # of two faults


@pytest.mark.parametrize("strict", ["0", "1"])
@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("KVPLAN", "aply", "aply"),
        ("KVPLAN_MAX_GROUPS", "none", "KVPLAN_MAX_GROUPS: expected a whole number"),
        ("KVPLAN_WORKLOAD", "/no/such/file", "/no/such/file"),
    ],
)
def test_a_bad_environment_warns_or_refuses(
    engine: Engine,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    strict: str,
    variable: str,
    value: str,
    said: str,
) -> None:
    monkeypatch.setenv("KVPLAN", "apply")
    monkeypatch.setenv("KVPLAN_STRICT", strict)
    monkeypatch.setenv(variable, value)
    if strict == "1":
        with pytest.raises(StartRefused, match=said):
            sized(engine)
        return
    assert sized(engine) == OWN
    (warning,) = [record for record in log.records if record.levelno == logging.WARNING]
    assert said in warning.getMessage()
    assert warning.getMessage().endswith("vLLM 0.32.0 sizes alone")


def test_an_error_of_any_kind_warns(
    engine: Engine, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVPLAN", "check")
    broken = config()
    del broken.parallel_config
    wrapped = functions.wrap(lambda *_: ["own"], engine)
    assert wrapped(broken, [specs()], [AVAILABLE]) == ["own"]
    assert "AttributeError: " in log.text


def test_a_refusal_is_explained_in_the_engines_flags(
    engine: Engine, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVPLAN", "check")
    with pytest.raises(ValueError, match="estimated maximum model length"):
        sized(engine, memory=LEAST_BLOCKS // 2 * (1 << 15))
    (error,) = [record for record in log.records if record.levelno == logging.ERROR]
    lines = error.getMessage().splitlines()
    assert lines[0].startswith("kvplan: rank worker0 is short by")
    flags = [line.split()[0] for line in lines if line.startswith("  ")]
    assert flags == ["--max-model-len", "--kv-cache-memory-bytes"]


def test_speculative_decoding_is_left_alone_even_if_strict(
    engine: Engine, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVPLAN", "apply")
    monkeypatch.setenv("KVPLAN_STRICT", "1")
    draft = config()
    draft.speculative_config = object()
    wrapped = functions.wrap(lambda *_: ["own"], engine)
    assert wrapped(draft, [specs()], [AVAILABLE]) == ["own"]
    assert [record.levelno for record in log.records] == [logging.INFO]


@pytest.mark.parametrize("mark", ["is_eagle_group", "host_resident"])
def test_marked_groups_are_not_dealt_anew(mark: str) -> None:
    group = Group(["a", "b"], object())
    setattr(group, mark, True)
    with pytest.raises(LeftAlone):
        regroup([group], ["a", "b"], 1)


def test_layers_are_dealt_in_turn() -> None:
    window, full = object(), object()
    names = list("abcdefg")
    groups = [Group(["a", "c"], window), Group(["g"], full), Group(["b", "d", "e", "f"], window)]
    made = regroup(groups, names, 4)
    assert [(group.layer_names, group.kv_cache_spec) for group in made] == [
        (["a", "c", "e"], window),
        (["b", "d", "f"], window),
        (["g"], full),
    ]


def test_register_is_idempotent_and_off_touches_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = SimpleNamespace(get_kv_cache_configs=engine.get_kv_cache_configs)
    engine.get_kv_cache_configs = core.get_kv_cache_configs  # type: ignore[method-assign]
    own = core.get_kv_cache_configs
    monkeypatch.setitem(sys.modules, seams.UTILS, engine)
    monkeypatch.setitem(sys.modules, seams.CORE, core)
    vllm.register()
    assert core.get_kv_cache_configs is own
    monkeypatch.setenv("KVPLAN", "check")
    vllm.register()
    wrapped = core.get_kv_cache_configs
    assert wrapped is engine.get_kv_cache_configs is not own
    vllm.register()
    assert core.get_kv_cache_configs is wrapped


def test_an_unknown_version_warns_or_refuses(
    engine: Engine, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__="0.34.0"))
    monkeypatch.setenv("KVPLAN", "apply")
    vllm.register()
    assert "0.19 to 0.33" in log.text
    monkeypatch.setenv("KVPLAN_STRICT", "1")
    with pytest.raises(StartRefused):
        vllm.register()


class OwnBuilder:
    """DefaultKVCacheConfigBuilder of 0.33."""

    def get_kv_cache_groups(self, config: Any, specs: dict[str, Any]) -> list[Group]:
        return Engine().get_kv_cache_groups(config, specs)


@pytest.fixture
def platform(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """0.33: a platform that names its builder, and the module that the builder lies in."""
    home = ModuleType("own_builders")
    home.OwnBuilder = OwnBuilder  # type: ignore[attr-defined]
    names = {builder.HOOK: classmethod(lambda cls, config: "own_builders.OwnBuilder")}
    current = type("Platform", (), names)()
    monkeypatch.setitem(sys.modules, "own_builders", home)
    monkeypatch.setitem(sys.modules, "vllm.platforms", SimpleNamespace(current_platform=current))
    monkeypatch.setattr(
        "sys.modules", {**sys.modules, "vllm": SimpleNamespace(__version__="0.33.0")}
    )
    builder.install()
    return current


def built(platform: Any, config: Any, specs: dict[str, Any]) -> list[int]:
    module, _, name = platform.get_kv_cache_config_builder_cls(config).rpartition(".")
    made = getattr(sys.modules[module], name)()
    assert isinstance(made, OwnBuilder)
    return [len(group.layer_names) for group in made.get_kv_cache_groups(config, specs)]


def test_the_builder_of_0_33_deals_groups_anew_under_apply_only(
    platform: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    workload(tmp_path, monkeypatch)
    monkeypatch.setenv("KVPLAN", "check")
    assert built(platform, config(), specs()) == OWN
    monkeypatch.setenv("KVPLAN", "apply")
    assert built(platform, config(), specs()) == PLANNED


def test_stages_of_0_33_follow_from_the_layers_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    halves = SimpleNamespace(
        get_pp_indices=lambda n, rank, size: (rank * n // size, (rank + 1) * n // size)
    )
    monkeypatch.setitem(sys.modules, "vllm.distributed.utils", halves)
    two = config(stages=[15, 14])
    two.model_config.get_total_num_hidden_layers = lambda: 29
    found = builder.stages_of_layers(two, specs())
    assert [len(stage) for stage in found] == [14, 15]


def sixty_layers() -> dict[str, Any]:
    return specs(windows=50, full=10)


def test_the_longest_request_never_needs_more_bytes() -> None:
    """11 and 7 layers: 5 groups of 4 hold more short requests, and a long one takes more bytes."""
    start = start_of(config(), [specs(windows=11, full=7)], [2 * AVAILABLE], VERSION)
    short = Workload(requests=[{"capacity": 200}])
    own = best_grouping(start, short, 0)
    wider = _grouping(start, short, 4)
    assert wider.split.requests > own.split.requests
    assert wider.longest_bytes > own.longest_bytes
    best = best_grouping(start, short, 16)
    assert best.split.requests < wider.split.requests
    assert best.longest_bytes <= own.longest_bytes


def test_a_start_below_the_longest_request_is_infeasible() -> None:
    start = start_of(config(), [sixty_layers()], [AVAILABLE // 1000], VERSION)
    with pytest.raises(Infeasible):
        best_grouping(start, Workload(requests=[{"capacity": 200}]), 24)


def test_a_count_of_blocks_that_is_given_is_explained_by_the_length_alone() -> None:
    given = config(num_gpu_blocks_override=300)
    asked = vllm.question(given, [specs()], [AVAILABLE], version=VERSION)
    with pytest.raises(Infeasible) as refused:
        plan(asked)
    assert refused.value.reasons[0].startswith("rank worker0 is short by")  # of the blocks' bytes
    labelled = [r.text for r in refused.value.remedies if r.text.startswith("--")]
    assert len(labelled) == 1
    assert labelled[0].startswith("--max-model-len ")
