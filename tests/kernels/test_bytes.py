"""Bytes of allocations and slots, and how many fit in a room."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.kernels.bytes import (
    expert_bytes,
    last_in_pages,
    least_kept,
    most_blocks,
    most_slots,
    paged,
    pool_bytes,
    slot_bytes,
)
from kvplan.kernels.instance import Buffers, ExpertRule

MIB = 2**20


def experts(**fields: Any) -> ExpertRule:
    plain = ExpertRule(
        least=0, most=None, sizes=((1, 10),), granule=1, keep=0, lend_num=0, lend_den=1
    )
    return plain._replace(**fields)


@pytest.mark.parametrize(
    ("count", "granule", "taken"),
    [(0, 8, 0), (1, 8, 8), (8, 8, 8), (9, 8, 16), (7, 1, 7)],
)
def test_an_allocation_is_rounded_up_to_its_granule(count: int, granule: int, taken: int) -> None:
    assert paged(count, granule) == taken


@pytest.mark.parametrize(
    ("blocks", "buffers", "taken"),
    [
        (135, ((524288, 2 * MIB),), 71_303_168),
        (66, ((262144, 2 * MIB),), 18_874_368),
        (4, ((829440, 2 * MIB), (4096, 2 * MIB)), 6_291_456),  # each buffer by itself
    ],
)
def test_pools_of_a_tensorrt_llm_layout(blocks: int, buffers: Buffers, taken: int) -> None:
    """Four full layers, two windows of 128, one state: the minimum at 2 MiB."""
    assert pool_bytes(blocks, buffers) == taken


def test_no_blocks_and_no_buffers_take_nothing() -> None:
    assert pool_bytes(0, ((10, 64),)) == 0
    assert pool_bytes(9, ()) == 0


LAYOUTS: list[Buffers] = [
    ((1, 1),),
    ((7, 1),),
    ((7, 5),),
    ((3, 10),),
    ((10, 10),),
    ((7, 1), (3, 1)),
    ((7, 5), (3, 11)),
    ((2, 40), (5, 12), (9, 9)),
]


@pytest.mark.parametrize("buffers", LAYOUTS)
def test_most_blocks_is_the_inverse_of_their_bytes(buffers: Buffers) -> None:
    for room in range(160):
        fitting = [n for n in range(165) if pool_bytes(n, buffers) <= room]
        assert most_blocks(room, buffers) == fitting[-1]


def test_a_room_below_zero_holds_not_even_zero_blocks() -> None:
    assert most_blocks(-1, ((7, 5),)) == -1
    assert most_blocks(-1, ((7, 5), (3, 1))) == -1
    assert most_blocks(0, ((7, 5),)) == 0


@pytest.mark.parametrize(
    ("slots", "taken"), [(0, 0), (1, 50), (3, 150), (4, 170), (8, 250), (9, 257), (20, 334)]
)
def test_slots_of_several_sizes_are_taken_in_order(slots: int, taken: int) -> None:
    assert slot_bytes(slots, ((3, 50), (5, 20), (1, 7))) == taken


def test_slots_of_all_layers_are_one_allocation() -> None:
    alike = experts(sizes=((1, 10),), granule=64)
    assert expert_bytes(2, 3, alike) == 64  # 60 B at once, not three times 64
    assert expert_bytes(2, 4, alike) == 128
    assert expert_bytes(0, 4, alike) == 0


@pytest.mark.parametrize(
    ("slots", "keep", "share", "kept"),
    [
        (760, 128, (9, 10), 128),  # floor(0.9 x 760) = 684 may go, 128 stay
        (2000, 128, (9, 10), 200),  # the share rules
        (15, 0, (9, 10), 2),  # floor(13.5) = 13
        (100, 128, (9, 10), 100),  # fewer than are kept: none may go
        (10, 0, (0, 1), 10),
        (10, 3, (1, 1), 3),
        (0, 3, (1, 1), 0),
    ],
)
def test_what_prefill_may_borrow(slots: int, keep: int, share: tuple[int, int], kept: int) -> None:
    lending = experts(keep=keep, lend_num=share[0], lend_den=share[1])
    assert least_kept(slots, lending) == kept


@pytest.mark.parametrize("buffers", LAYOUTS)
def test_what_the_pages_hold_already_is_free(buffers: Buffers) -> None:
    for held in range(40):
        taken = pool_bytes(held, buffers)
        alike = [n for n in range(held, 300) if pool_bytes(n, buffers) == taken]
        assert last_in_pages(held, buffers) == alike[-1]


def test_many_small_blocks_in_large_granules_of_several_sizes() -> None:
    """The pages of the two buffers end at different blocks: no page count decides alone."""
    buffers = ((3, 2 * MIB), (1000, 64), (7, MIB))
    for room in (0, 3 * MIB, 3 * MIB + 63, 10**7, 10**9 + 7):
        most = most_blocks(room, buffers)
        assert pool_bytes(most, buffers) <= room or most == 0
        assert pool_bytes(most + 1, buffers) > room


@pytest.mark.parametrize("sizes", [((1, 10),), ((3, 50), (5, 20), (1, 7)), ((2, 5), (1, 9))])
@pytest.mark.parametrize("granule", [1, 64])
@pytest.mark.parametrize("layers", [1, 3])
def test_most_slots_are_the_inverse_of_their_bytes(
    sizes: tuple[tuple[int, int], ...], granule: int, layers: int
) -> None:
    alike = experts(sizes=sizes, granule=granule)
    for room in range(900):
        fitting = [n for n in range(300) if expert_bytes(n, layers, alike) <= room]
        assert most_slots(room, layers, alike) == fitting[-1]
    assert most_slots(-1, layers, alike) == -1
