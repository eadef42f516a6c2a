"""Readings of a device through torch, and what is suspicious about them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.measured.doubts import doubts_of, spread_doubts
from kvplan.models.ranks import Rank, RankMemory

GIB = 2**30


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A card as torch shows it: what the readings are is set by the test."""
    state: dict[str, Any] = {
        "free": 70 * GIB,
        "total": 80 * GIB,
        "allocated_bytes.all.current": 4 * GIB,
        "allocated_bytes.all.peak": 6 * GIB,
        "reserved_bytes.all.current": 7 * GIB,
        "available": True,
        "asked": [],
    }

    def read(kind: str, value: Any) -> Any:
        def reading(device: Any = None) -> Any:
            state["asked"].append((kind, device))
            return value()

        return reading

    cuda = SimpleNamespace(
        is_available=lambda: state["available"],
        mem_get_info=read("info", lambda: (state["free"], state["total"])),
        memory_stats=read("stats", lambda: {k: v for k, v in state.items() if "." in k}),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, __version__="0"))
    return state


def test_the_readings_of_a_device(device: dict[str, Any]) -> None:
    memory = RankMemory.measure("cuda:3", utilization=0.9, safety={"fraction": 0.02})
    assert (memory.total, memory.free) == (80 * GIB, 70 * GIB)
    assert memory.peak_torch == 6 * GIB
    assert memory.non_torch == 3 * GIB  # 10 in use, 7 of it reserved by the allocator
    assert memory.utilization_share == 72 * GIB - 9 * GIB - -(-80 * GIB * 2 // 100)
    assert device["asked"] == [("info", "cuda:3"), ("stats", "cuda:3")]


def test_a_peak_that_was_reset_is_at_least_what_is_held(device: dict[str, Any]) -> None:
    device["allocated_bytes.all.peak"] = 0
    assert RankMemory.measure().peak_torch == 4 * GIB


def test_an_allocator_that_never_ran_holds_nothing(device: dict[str, Any]) -> None:
    for name in [name for name in device if "." in name]:
        del device[name]
    memory = RankMemory.measure()
    assert (memory.peak_torch, memory.non_torch) == (0, 10 * GIB)
    assert "peak_torch is 0" in " ".join(doubts_of(memory))


def test_more_reserved_than_in_use_is_named_and_not_clamped(device: dict[str, Any]) -> None:
    device["free"] = 74 * GIB
    with pytest.raises(InvalidProblem, match="non_torch: expected a device with at least what"):
        RankMemory.measure()


def test_an_override_takes_the_place_of_a_reading_that_contradicts(device: dict[str, Any]) -> None:
    device["free"] = 74 * GIB  # less in use than the allocator reserved
    memory = RankMemory.measure(free="70GiB", non_torch="2GiB")
    assert (memory.free, memory.non_torch) == (70 * GIB, 2 * GIB)
    assert RankMemory.measure(free="70GiB").non_torch == 3 * GIB  # derived from the override
    assert RankMemory.measure(total="90GiB").non_torch == 9 * GIB


@pytest.mark.parametrize("name", ["total", "free"])
def test_an_override_that_is_no_byte_figure_is_named(device: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidProblem, match=rf"^{name}: expected bytes such as .*, got 'much'$"):
        RankMemory.measure(**{name: "much"})


@pytest.mark.parametrize(
    ("reading", "value", "named"),
    [
        ("free", 81 * GIB, "free"),
        ("allocated_bytes.all.peak", 81 * GIB, "peak_torch"),
        ("total", -1, "total"),
    ],
)
def test_an_impossible_reading_is_named(
    device: dict[str, Any], reading: str, value: int, named: str
) -> None:
    device[reading] = value
    device["reserved_bytes.all.current"] = -(2**60)  # the others are not to blame
    with pytest.raises(InvalidProblem, match=rf"(?m)^{named}: expected "):
        RankMemory.measure(non_torch=0)


def test_terms_are_judged_as_in_a_file(device: dict[str, Any]) -> None:
    expected = r"^graphs: expected \{fraction: \.\.\.\}, or bytes of at least 0, got -1$"
    with pytest.raises(InvalidProblem, match=expected):
        RankMemory.measure(graphs=-1)  # a public report: graph estimates below 0


def test_no_device_is_an_error_and_no_plan(device: dict[str, Any]) -> None:
    device["available"] = False
    with pytest.raises(InvalidProblem, match=r"^device: expected a CUDA or ROCm device"):
        RankMemory.measure()


# Total, utilization, peak_torch, non_torch, free in GiB, and what is to be said of them.
REPORTED = {
    "ROCm/ATOM #3171, V4-Pro rank 1": ("287.98", 0.9, "114.06", "14.46", "160.04", ""),
    "ROCm/ATOM #3171, Llama-3-8B TP2": ("287.98", 0.3, "10.67", "15.54", "262.74", ""),
    "ROCm/ATOM #2050, after": ("287.98", 0.86, "192.91", "13.40", "80.78", ""),
    "ROCm/ATOM #2050, communicators doubled": (
        "287.98",
        0.86,
        "192.92",
        "30.21",
        "63.91",
        "is 10.4 % of total: a neighbour",
    ),
    "ROCm/ATOM #1495, heavy rank": ("287.98", 0.85, "205.00", "34.00", "49.00", "11.8 %"),
    "ROCm/ATOM #2267, colocated trainer": ("287.98", 0.3, "57.68", "52.88", "177.39", "18.3 %"),
    "non-torch of another moment": ("80", 0.9, "20", "7", "75", "readings of different moments"),
    "ROCm/ATOM #1649, not charged": ("287.98", 0.9, "114.06", "0", "160.04", "neither peak_torch"),
    "nothing loaded": ("80", 0.9, "0", "1", "79", "peak_torch is 0"),
}


@pytest.mark.parametrize("case", REPORTED)
def test_suspicious_readings_are_named(case: str) -> None:
    total, utilization, peak, non_torch, free, said = REPORTED[case]
    memory = RankMemory.model_validate(
        {
            "total": f"{total}GiB",
            "utilization": utilization,
            "peak_torch": f"{peak}GiB",
            "non_torch": f"{non_torch}GiB",
            "free": f"{free}GiB",
        }
    )
    doubts = doubts_of(memory)
    assert len(doubts) == (1 if said else 0), doubts
    assert said in " ".join(doubts)


def test_graphs_that_eat_the_budget_are_named() -> None:
    # ROCm/ATOM: estimated 8.5 GB, in truth 33, of 259.18
    memory = {"total": "287.98GiB", "utilization": 0.9, "peak_torch": "100GiB"}
    light = RankMemory.model_validate({**memory, "graphs": "33GiB"})
    heavy = RankMemory.model_validate({**memory, "graphs": "40GiB"})
    assert doubts_of(light) == ()
    assert "graphs 42_949_672_960 B (40.00 GiB) is 15.4 % of" in doubts_of(heavy)[0]


@pytest.mark.parametrize("term", ["peak_torch", "non_torch", "graphs"])
def test_a_term_beyond_the_device_is_refused(term: str) -> None:
    with pytest.raises(ValueError, match=f"{term} of at most total 10, got 11"):
        RankMemory.model_validate({"total": 10, "utilization": 1, term: 11})


def test_a_rank_far_below_the_others_is_named() -> None:
    def rank(name: str, free: str, stage: int = 0) -> Rank:
        memory = {"total": "100GiB", "free": free}
        return Rank.model_validate({"name": name, "stage": stage, "memory": memory})

    near = [rank("a", "50GiB"), rank("b", "49GiB"), rank("c", "48GiB")]
    assert spread_doubts(near) == ()
    far = [*near, rank("d", "46GiB"), rank("e", "10GiB", stage=1), rank("f", "60GiB")]
    named = spread_doubts(far)
    assert len(named) == 1
    assert named[0].startswith("rank d: 3_221_225_472 B (3.00 GiB) below the median of stage 0")
    declared = Rank.model_validate({"name": "g", "quota": 1})
    assert spread_doubts([*near, declared]) == ()


def test_without_torch_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="install it, or pass the readings: RankMemory"):
        RankMemory.measure(utilization=0.9)
