"""Constraints, goals and fill, small enough to compute by hand."""

from fractions import Fraction
from typing import Any

from kvplan.solver.oracle import best
from support.micro import cache, micro, one, solved

TWO: dict[str, Any] = {
    "pools": [{"name": "a", "bytes": 10}, {"name": "b", "bytes": 7}],
    "caches": [
        {"name": "f", "pool": "a", "kind": "full"},
        {"name": "s", "pool": "b", "kind": "state"},
    ],
}


def test_linear_constraints() -> None:
    parts: dict[str, Any] = {**TWO, **one(8)}
    assert solved(micro(100, **parts)).blocks == {"a": 9, "b": 1}
    ratio = [{"terms": {"blocks:a": 1, "blocks:b": "-3/2"}, "min": 0, "max": 0}]
    assert solved(micro(100, **parts, constraints=ratio)).blocks == {"a": 6, "b": 4}
    more = [{"terms": {"blocks:b": 1}, "min": 5}]
    assert solved(micro(100, **parts, constraints=more)).blocks == {"a": 6, "b": 5}
    assert best(micro(100, **parts, constraints=[{"terms": {"blocks:b": 1}, "min": 12}])) is None
    experts = {"slot_bytes": 1, "max_slots": 9}
    bound = [{"terms": {"experts": 2, "blocks:a": -1}, "max": 1}]
    slots = solved(micro(100, **parts, experts=experts, constraints=bound))
    assert (slots.expert_slots, slots.blocks["a"]) == (4, 8)


def test_constraints_on_options_and_copies() -> None:
    options = [{"name": name} for name in ("dense", "tiled")]
    choices = [{"name": "way", "options": options}]
    banned = [{"terms": {"choice:way=dense": 1}, "max": 0}]
    assert solved(micro(choices=choices, constraints=banned)).choices == {"way": "tiled"}
    copies = [{"terms": {"copies:b": 1}, "max": 3}]
    assert solved(micro(100, **one(8), constraints=copies)).blocks == {"p": 7}


def test_weighted_goals_and_curves() -> None:
    parts: dict[str, Any] = {
        **one(40, fit="capacity"),
        "experts": {"slot_bytes": 15, "max_slots": 6},
    }
    # 10 bytes buy 4 tokens of capacity, 15 bytes a slot: 6.5 tokens a slot is the price.
    cheap = [{"maximize": {"capacity:q": 1, "experts": 6}}]
    dear = [{"maximize": {"capacity:q": 1, "experts": 7}}]
    assert solved(micro(105, **parts, goals=cheap)).expert_slots == 1
    assert solved(micro(105, **parts, goals=dear)).expert_slots == 5
    curve = {"experts": [[1, 0], [3, 20], [4, 21]]}
    bent = [{"maximize": {"capacity:q": 1, "experts": 1}, "curves": curve}]
    found = solved(micro(105, **parts, goals=bent))
    assert (found.expert_slots, found.requests["q"][0], found.goals[0]) == (3, 24, 44)
    halves = [{"maximize": {"experts": "1/3"}, "curves": {"experts": [[0, 0], [4, 2]]}}]
    assert solved(micro(105, **parts, goals=halves)).goals[0] == Fraction(2, 3)


def test_a_weighted_goal_fixes_its_value_alone() -> None:
    requests = [{"name": name, "capacity": 20, "fit": "capacity"} for name in "ab"]
    batches = [{"name": "x", "requests": requests}]
    goal = [{"maximize": {"capacity:a": 1, "capacity:b": 1}}]
    # 24 tokens in all; the default goals then prefer the first request.
    assert solved(micro(60, batches=batches, goals=goal)).requests["a"] == (20, 19, 1)
    down = [{"maximize": {"capacity:a": -1}}]
    assert solved(micro(60, batches=batches, goals=down)).requests["a"] == (1, 0, 1)


def test_every_form_of_fill() -> None:
    parts: dict[str, Any] = {**TWO, **one(8)}

    def filled(form: Any) -> tuple[dict[str, int], int | None]:
        found = solved(micro(100, **parts, fill=form))
        return dict(found.blocks), found.copies

    assert filled("none") == ({"a": 2, "b": 1}, None)
    assert filled({"pools": ["a"]}) == ({"a": 9, "b": 1}, None)
    assert filled({"pools": ["b", "a"]}) == ({"a": 2, "b": 11}, None)
    # Three copies take 6 x 10 and 3 x 7 bytes; the 19 left hold one more block of the first pool.
    assert filled({"batch": "b"}) == ({"a": 7, "b": 3}, 3)
    assert filled({"shares": {"a": 0.5, "b": 0.5}}) == ({"a": 5, "b": 7}, None)
    # Of the 93 bytes beside one state block a half is 46.
    assert filled({"shares": {"a": 0.5}}) == ({"a": 4, "b": 1}, None)
    # A half of 59 bytes is no room for a third block.
    assert solved(micro(66, **parts, fill={"shares": {"a": 0.5}})).blocks == {"a": 2, "b": 1}
    # A floor above its share stays.
    assert filled({"shares": {"a": 0.1, "b": 0.9}}) == ({"a": 2, "b": 11}, None)


def test_copies_may_be_a_goal() -> None:
    parts: dict[str, Any] = {**TWO, **one(8), "experts": {"slot_bytes": 10, "max_slots": 9}}
    found = solved(micro(100, **parts, goals=["copies:b"]))
    assert (found.goals[0], found.expert_slots, found.blocks) == (3, 1, {"a": 6, "b": 3})
    halved = micro(100, **parts, goals=["copies:b"], resume_utilization="1/2")
    assert solved(halved).goals[0] == 1


def test_requests_that_need_no_block_have_no_copies() -> None:
    # Nothing is in flight: at 12 tokens every block lies before the window of the thirteenth.
    window = cache(kind="window", window=1, keep="live")
    rest = one(14, 14, fit="capacity", min_capacity=10)
    best_copies = solved(micro(100, **window, **rest, goals=["copies:b"]))
    assert (best_copies.requests["q"], best_copies.goals[0]) == ((14, 14, 1), 10)
    least = one(12, 12, fit="capacity", min_capacity=11)
    later = solved(micro(100, **window, **least, fill={"batch": "b"}))
    assert (later.requests["q"], later.copies, later.blocks) == ((12, 12, 1), 0, {"p": 10})
    none = [{"terms": {"copies:b": 1}, "max": 0}]
    kept = solved(micro(100, **window, **least, constraints=none))
    assert kept.requests["q"] == (12, 12, 1)


def test_unnamed_pools_stay_at_their_floor_even_beside_lent_slots() -> None:
    pools = [{"name": "a", "bytes": 10}, {"name": "b", "bytes": 7}, {"name": "c", "bytes": 1}]
    found = solved(micro(100, pools=pools, caches=TWO["caches"], **one(8), fill={"pools": ["b"]}))
    assert found.blocks == {"a": 2, "b": 11, "c": 0}


def test_goals_in_order() -> None:
    parts: dict[str, Any] = {
        **one(40, fit="capacity"),
        "experts": {"slot_bytes": 15, "max_slots": 4},
    }
    assert solved(micro(100, **parts)).requests["q"][0] == 40
    first = solved(micro(100, **parts, goals=["experts"]))
    assert (first.expert_slots, first.requests["q"][0], first.blocks["p"]) == (4, 16, 4)
    assert (first.labels, first.goals) == (
        ("experts", "capacity:q", "experts", "blocks:p"),
        (4, 16, 4, 4),
    )
    greedy = solved(micro(100, **parts, goals=["blocks:p"]))
    assert (greedy.blocks["p"], greedy.expert_slots, greedy.requests["q"][0]) == (10, 0, 40)


def test_choices_go_before_prefill_and_prefill_before_experts() -> None:
    options = [{"name": "dense", "bytes": 40}, {"name": "tiled"}]
    prefill = {"requested": 20, "step": 5, "staging": [{"name": "s", "per_token": 4}]}
    parts: dict[str, Any] = {"choices": [{"name": "way", "options": options}], "prefill": prefill}
    found = solved(micro(105, **parts, experts={"slot_bytes": 10, "max_slots": 4}))
    assert (found.choices, found.prefill_chunk, found.expert_slots) == ({"way": "dense"}, 15, 0)
    first = solved(
        micro(105, **parts, experts={"slot_bytes": 10, "min_slots": 4}, goals=["prefill"])
    )
    assert (first.choices, first.prefill_chunk) == ({"way": "tiled"}, 15)


def test_requests_are_fitted_in_the_order_written() -> None:
    requests = [{"name": name, "capacity": 40, "fit": "capacity"} for name in "ab"]
    batches = [{"name": "x", "requests": requests}]
    assert solved(micro(110, batches=batches)).requests == {"a": (40, 39, 1), "b": (4, 3, 1)}
    other = micro(110, batches=batches, goals=["capacity:b"])
    assert solved(other).requests == {"a": (4, 3, 1), "b": (40, 39, 1)}
