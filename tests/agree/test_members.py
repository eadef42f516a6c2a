"""The gather that says who is missing, and says the same everywhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from kvplan.models import AgreementFailed
from kvplan.solver.agree import Hub, MemberComm
from kvplan.solver.agree.members import Group, View
from support.agreeing import Told, in_threads

GRID = {
    **{rank: ((0, 1, 2, 3), (rank, rank + 4)) for rank in range(4)},
    **{rank: ((4, 5, 6, 7), (rank - 4, rank)) for rank in range(4, 8)},
}
TIMEOUT = 0.4


def gathered(comm: MemberComm, payload: bytes, timeout: float = 10.0) -> Told:
    start = time.monotonic()
    try:
        parts = comm.gather_within(payload, timeout)
    except AgreementFailed as error:
        return Told("failed", str(error), time.monotonic() - start)
    return Told("", repr(parts), time.monotonic() - start)


def texts(works: Sequence[Callable[[], Told] | None]) -> set[str]:
    told = in_threads(works)
    assert all(answer is not None for answer, work in zip(told, works, strict=True) if work)
    return {answer.text for answer in told if answer is not None}


def test_groups_compose_to_all_that_they_connect() -> None:
    hub = Hub()
    works = [lambda r=r: gathered(hub.comm(r, *GRID[r]), bytes([r])) for r in GRID]
    assert texts(works) == {repr({rank: bytes([rank]) for rank in range(8)})}


@pytest.mark.parametrize("kept", [0, 1])
def test_one_group_alone_is_that_group(kept: int) -> None:
    hub = Hub()
    works = [lambda r=r: gathered(hub.comm(r, GRID[r][kept]), bytes([r])) for r in GRID]
    told = in_threads(works)
    for rank, answer in enumerate(told):
        assert answer is not None
        assert answer.text == repr({peer: bytes([peer]) for peer in GRID[rank][kept]})


def test_a_group_of_one_adds_nobody_and_one_without_me_neither() -> None:
    comm = Hub().comm(3, (3,), (1, 2))
    assert comm.gather_within(b"own", 0.1) == {3: b"own"}
    assert comm.all_gather(b"own") == [b"own"]


@pytest.mark.parametrize("missing", [(3,), (0,), (1, 6)])
def test_missing_members_are_named_by_all(missing: tuple[int, ...]) -> None:
    hub = Hub()
    works = [
        None if r in missing else lambda r=r: gathered(hub.comm(r, *GRID[r]), b"", TIMEOUT)
        for r in GRID
    ]
    listed = ", ".join(map(str, missing))
    who = f"ranks {listed}" if len(missing) > 1 else f"rank {listed}"
    assert texts(works) == {f"{who} did not answer within 0.4 s"}


def test_a_member_that_ends_after_its_view_is_named_by_all() -> None:
    hub = Hub()

    def dies() -> Told:
        comm = hub.comm(2, range(4))
        put = comm._mailbox.put

        def die(key: str, value: bytes) -> None:
            if key.endswith("verdict"):
                raise SystemExit
            put(key, value)

        comm._mailbox.put = die  # type: ignore[method-assign]
        try:
            return gathered(comm, b"", TIMEOUT)
        except SystemExit:
            return Told("died", "rank 2 did not answer within 0.4 s", 0)

    alive = [lambda r=r: gathered(hub.comm(r, range(4)), b"", TIMEOUT) for r in range(4)]
    told = in_threads([*alive[:2], dies, alive[3]])
    assert {answer and answer.text for answer in told} == {"rank 2 did not answer within 0.4 s"}
    assert [answer and answer.kind for answer in told] == ["failed", "failed", "died", "failed"]
    for answer in told:
        assert answer is not None
        assert answer.seconds < 3 * TIMEOUT + 1


def test_whoever_one_misses_is_missing_for_all() -> None:
    """Rank 2 comes when rank 0 has given it up and rank 1 still waits."""
    hub = Hub()

    def comes_after_the_verdict_of_rank_0() -> Told:
        while not any(key.endswith("/0/verdict") for key in list(hub._shelf)):
            time.sleep(0.001)
        return gathered(hub.comm(2, range(3)), b"", 10.0)

    told = in_threads(
        [
            lambda: gathered(hub.comm(0, range(3)), b"", 0.2),
            lambda: gathered(hub.comm(1, range(3)), b"", 10.0),
            comes_after_the_verdict_of_rank_0,
        ]
    )
    for answer in told:
        assert answer is not None
        assert answer.text.startswith("rank 2 did not answer within ")
        assert answer.seconds < 5


def test_nobody_leaves_before_the_others_have_read() -> None:
    """The host of a store takes it along when it ends, and another may be slower to read."""
    hub, gone = Hub(), threading.Event()

    def host() -> Told:
        told = gathered(hub.comm(0, range(2)), b"")
        gone.set()
        return told

    def slow() -> Told:
        comm = hub.comm(1, range(2))
        get = comm._mailbox.get

        def read(key: str) -> bytes | None:
            if key.endswith("/0/verdict"):
                time.sleep(0.2)
            if gone.is_set() and not key.endswith("/parted"):
                raise ConnectionResetError
            return get(key)

        comm._mailbox.get = read  # type: ignore[method-assign]
        return gathered(comm, b"")

    assert texts([host, slow]) == {repr({0: b"", 1: b""})}


def test_who_comes_much_too_late_learns_the_same_and_the_next_call_works() -> None:
    hub = Hub()

    def after(delay: float, rank: int) -> Told:
        comm = hub.comm(rank, range(3))
        time.sleep(delay)
        first = gathered(comm, b"first", TIMEOUT)
        second = gathered(comm, b"second", 10.0)
        return Told("", f"{first.text}; {second.text}", 0)

    works = [lambda r=r: after(1.0 if r == 1 else 0.0, r) for r in range(3)]
    agreed = dict.fromkeys(range(3), b"second")
    assert texts(works) == {f"rank 1 did not answer within 0.4 s; {agreed!r}"}


def test_uses_of_other_names_do_not_mix() -> None:
    hub = Hub()

    def work(rank: int) -> Told:
        comms = {name: hub.comm(rank, range(2), name=name) for name in ("kv", "draft")}
        order = ("kv", "draft") if rank == 0 else ("draft", "kv")
        sent = {name: gathered(comms[name], name.encode(), 0.2) for name in order}
        return Told("", sent["kv"].text + sent["draft"].text, 0)

    # In opposite orders nothing can match, and that is told, not waited for.
    assert all("did not answer" in text for text in texts([lambda r=r: work(r) for r in range(2)]))


def test_two_communicators_of_one_group_take_turns() -> None:
    hub = Hub()

    def work(rank: int) -> Told:
        first = gathered(hub.comm(rank, range(2)), b"a")
        second = gathered(hub.comm(rank, range(2)), b"b")
        return Told("", first.text + second.text, 0)

    agreed = "".join(repr(dict.fromkeys(range(2), letter)) for letter in (b"a", b"b"))
    assert texts([lambda r=r: work(r) for r in range(2)]) == {agreed}


def test_a_view_travels_as_it_is() -> None:
    view = View((Group((0, 3), 7), Group((3, 9), 0)), b"line\nline\x00")
    assert View.decode(view.encode()) == view
