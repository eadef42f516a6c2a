"""The quota of a rank: declared, or derived from what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models.ranks import Rank
from kvplan.models.units import parse_bytes

GIB = 2**30


def quota_of(**memory: Any) -> int:
    return Rank.model_validate({"name": "r", "memory": memory}).quota_bytes


# ROCm/ATOM PR #3171, "Memory budget:" lines, GiB with two decimals: total, free, utilization,
# peak_torch, non_torch, cudagraph_est, available_for_kv; safety is 2 % of the total.
ATOM_LINES = {
    "DeepSeek-V4-Pro rank 0": ("287.98", "160.40", 0.9, "114.06", "14.10", "0.34", "124.92"),
    "DeepSeek-V4-Pro rank 1": ("287.98", "160.04", 0.9, "114.06", "14.46", "0.34", "124.57"),
    "DeepSeek-V4-Pro rank 2": ("287.98", "160.22", 0.9, "114.06", "14.27", "0.34", "124.75"),
    "Llama-3-8B TP2": ("287.98", "262.74", 0.3, "10.67", "15.54", "0.19", "54.23"),
}
ROUNDING = GIB * 5 // 1000


@pytest.mark.parametrize("line", ATOM_LINES)
def test_the_terms_of_a_log_give_its_budget(line: str) -> None:
    total, free, utilization, peak, non_torch, graphs, available = ATOM_LINES[line]
    memory = {
        "total": f"{total}GiB",
        "free": f"{free}GiB",
        "utilization": utilization,
        "peak_torch": f"{peak}GiB",
        "non_torch": f"{non_torch}GiB",
        "graphs": f"{graphs}GiB",
        "safety": {"fraction": 0.02},
    }
    printed = parse_bytes(f"{available}GiB", round_up=False)
    assert abs(quota_of(**memory) - printed) <= 5 * ROUNDING  # five printed figures
    assert quota_of(**{**memory, "safety": 0}) == quota_of(**memory) + margin_of(memory)


def margin_of(memory: dict[str, Any]) -> int:
    """2 % of the total, rounded up."""
    total = parse_bytes(memory["total"], round_up=False)
    return -(-2 * total // 100)


ALL = {
    "total": 1000,
    "free": 900,
    "utilization": 0.97,
    "peak_torch": 100,
    "non_torch": 20,
    "graphs": 3,
    "safety": 40,
    "connector": 5,
    "other": {"nccl": 6, "sampler": 7},
}


def test_the_utilization_share_is_what_every_term_leaves() -> None:
    assert quota_of(**ALL) == 970 - 100 - 20 - 3 - 40 - 5 - 6 - 7
    for term in ("peak_torch", "non_torch", "graphs", "safety", "connector"):
        raised = {**ALL, term: ALL[term] + 1}  # type: ignore[operator]
        assert quota_of(**raised) == quota_of(**ALL) - 1, term
    assert quota_of(**{**ALL, "other": {}}) == quota_of(**ALL) + 13


def test_the_share_of_the_total_rounds_down_and_a_margin_up() -> None:
    assert quota_of(total=999, utilization=0.97) == 969  # 969.03
    assert quota_of(total=999, utilization=1, safety={"fraction": 0.02}) == 999 - 20  # 19.98
    assert quota_of(total=2**62 + 1, utilization="1/3") == (2**62 + 1) // 3


def test_the_smaller_share_is_the_quota() -> None:
    physical = {**ALL, "free": 300, "prefill_headroom": 50}
    assert quota_of(**physical) == 300 - 5 - 50
    assert quota_of(**{**physical, "prefill_headroom": {"fraction": "1/16"}}) == 300 - 5 - 63
    assert quota_of(**{**physical, "prefill_headroom": "from_staging"}) == 300 - 5
    assert quota_of(**{**physical, "free": 900}) == quota_of(**ALL)


def test_a_share_that_has_no_reading_is_no_bound() -> None:
    assert quota_of(free=900, connector=5) == 895
    assert quota_of(total=1000, utilization=0.5, connector=5) == 495


def test_nothing_is_clamped_to_zero() -> None:
    assert quota_of(total=1000, utilization=0.5, peak_torch=800) == -300
    assert quota_of(free=100, connector=150) == -50


def test_a_supply_rounds_down_and_a_demand_up() -> None:
    assert quota_of(free="10.9B", connector="0.1B") == 10 - 1
    assert Rank.model_validate({"name": "r", "quota": "10.9B"}).quota_bytes == 10


def test_a_zero_quota_is_a_quota() -> None:
    assert Rank.model_validate({"name": "r", "quota": 0}).quota_bytes == 0
