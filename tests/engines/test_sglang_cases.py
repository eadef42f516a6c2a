"""SGLang 0.5.23: every pool that the engine's own code sized, to the token and to the slot."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvplan.models import Infeasible
from kvplan.models.engines.sglang import build, figures
from kvplan.models.engines.sglang.cells import cells
from kvplan.models.engines.sglang.launch.flags import swa_ratio
from kvplan.models.engines.sglang.state_slots import slot_bytes
from kvplan.solver import plan
from support.sglang import CASES, architecture_of, settings_of

HOLDS = [name for name, case in CASES.items() if "error" not in case["answer"]]


@pytest.mark.parametrize("name", HOLDS)
def test_pools_are_the_engines(name: str) -> None:
    case, architecture, settings = (
        CASES[name],
        architecture_of(CASES[name]),
        settings_of(CASES[name]),
    )
    problem = build(architecture, settings)
    printed = figures(architecture, settings, problem, plan(problem))
    answer = case["answer"]
    assert printed["max_total_num_tokens"] == str(answer["max_total_num_tokens"])
    assert printed["max_running_requests"] == str(answer["max_running_requests"])
    assert printed.get("swa_layer_tokens") == _text(answer.get("swa"))
    assert printed.get("max_mamba_cache_size") == _text(answer.get("max_mamba_cache_size"))


def _text(count: int | None) -> str | None:
    return None if count is None else str(count)


@pytest.mark.parametrize("name", [name for name in CASES if name not in HOLDS])
def test_what_the_engine_refuses_has_no_plan(name: str) -> None:
    with pytest.raises(Infeasible):
        plan(build(architecture_of(CASES[name]), settings_of(CASES[name])))


@pytest.mark.parametrize("name", CASES)
def test_bytes_a_token_are_the_engines(name: str) -> None:
    case, settings = CASES[name], settings_of(CASES[name])
    (cell,) = cells(architecture_of(case), settings)
    ratio = swa_ratio(architecture_of(case), settings) if cell.window else 0
    assert cell.full + ratio * cell.window == Fraction(case["answer"]["cell_size"])


@pytest.mark.parametrize("name", [n for n in HOLDS if "state" in CASES[n]])
def test_bytes_a_slot_are_the_engines(name: str) -> None:
    case = CASES[name]
    slot = slot_bytes(architecture_of(case), settings_of(case))
    assert slot == case["answer"]["state_bytes_per_slot"]
