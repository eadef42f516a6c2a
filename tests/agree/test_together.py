"""All ranks get the same plan or raise the same text; threads stand in for ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kvplan.models import AgreementFailed, InvalidProblem, Plan
from kvplan.models.measured.local import LONGEST_ERROR, LocalView
from kvplan.models.ranks import Rank
from kvplan.solver.agree import Hub, NullComm, message, plan_together, together
from support.agreeing import (
    BLOCK_BYTES,
    NON_TORCH,
    STATE_BYTES,
    Told,
    ask,
    entry,
    in_threads,
    question,
    view,
)

RANKS = 4
RANK = Rank.model_validate(entry(1))
Local = LocalView | Callable[[], LocalView]


def told_by(locals_: Sequence[Local | None], timeout: float = 20.0) -> list[Told | None]:
    """How each rank ended; None stands for a rank that never calls."""
    hub, ranks = Hub(), range(len(locals_))
    return in_threads(
        [
            None
            if local is None
            else lambda r=r, local=local: ask(local, hub.comm(r, ranks), timeout)
            for r, local in enumerate(locals_)
        ]
    )


def same(locals_: Sequence[Local | None], timeout: float = 20.0) -> tuple[str, str]:
    """Kind and text of the answer that every rank that called gave."""
    answers = {(told.kind, told.text) for told in told_by(locals_, timeout) if told is not None}
    assert len(answers) == 1, answers
    return answers.pop()


def views(**of_rank: dict[str, Any]) -> list[Local]:
    """Views of all ranks; `r2={...}` changes sections of the problem of rank 2."""
    return [view(rank, **of_rank.get(f"r{rank}", {})) for rank in range(RANKS)]


def test_the_plan_is_that_of_the_shortest_rank() -> None:
    kind, text = same(views())
    quotas = [Rank.model_validate(entry(rank)).quota_bytes for rank in range(RANKS)]
    assert len(set(quotas)) == RANKS
    assert kind == "Plan"
    assert text.startswith(f"{{'paged': {(min(quotas) - STATE_BYTES) // BLOCK_BYTES}}} ")


def test_ranks_stand_in_the_problem_by_their_number() -> None:
    hub, plans = Hub(), {}

    def work(number: int) -> Told:
        plans[number] = plan_together(view(number), hub.comm(number, (7, 0, 3)), 20)
        return Told("", "", 0)

    in_threads([lambda number=number: work(number) for number in (7, 0, 3)])
    for answer in plans.values():
        assert [rank.name for rank in answer.ranks] == ["r0", "r3", "r7"]


def test_a_rank_alone_needs_nobody() -> None:
    answer = plan_together(view(1), NullComm(), 1)
    assert (Rank.model_validate(entry(1)).quota_bytes - STATE_BYTES) // BLOCK_BYTES == (
        answer.blocks["paged"]
    )


def test_replicas_need_not_agree() -> None:
    hub = Hub()
    pairs = [(0, 1), (0, 1), (2, 3), (2, 3)]
    told = in_threads(
        [lambda r=r, pair=pair: ask(view(r), hub.comm(r, pair)) for r, pair in enumerate(pairs)]
    )
    assert told[0] is not None
    assert told[2] is not None
    assert told[0].text == told[1].text != told[2].text == told[3].text  # type: ignore[union-attr]


def test_every_failing_rank_is_named() -> None:
    def fails() -> LocalView:
        raise MemoryError("no room\nfor a reading")

    kind, text = same([*views()[:2], fails, LocalView.failed("no device")])
    assert kind == "AgreementFailed"
    assert text.splitlines() == [
        "rank 2: MemoryError: no room | for a reading",
        "rank 3: no device",
    ]


@pytest.mark.parametrize(
    ("local", "named"),
    [
        (lambda: {"rank": 1}, "TypeError: expected a LocalView, got dict"),
        (
            lambda: LocalView.of(question(), {"name": "r1"}),
            "InvalidProblem: expected either quota or memory, got neither",
        ),
        (LocalView(), "it sent neither an entry nor an error"),
        (
            LocalView(question={"pools": [object()]}, rank=RANK),
            "TypeError: expected plain data, got object",
        ),
        (lambda: LocalView.of({**question(), "name": float("nan")}, entry(1)), "name unlike"),
        (LocalView.failed("x" * 10**6), "xxxx"),
    ],
)
def test_whatever_a_rank_brings_nobody_is_left_alone(local: Any, named: str) -> None:
    kind, text = same([view(0), local, view(2)])
    assert kind in ("AgreementFailed", "InvalidProblem")
    assert text.startswith("rank 1")
    assert named in text
    assert len(text) <= LONGEST_ERROR + len("rank 1: ")


def test_the_failing_rank_keeps_its_own_traceback() -> None:
    def fails() -> LocalView:
        raise ValueError("bad reading")

    with pytest.raises(AgreementFailed, match="rank 0: ValueError: bad reading") as caught:
        plan_together(fails, NullComm(), 1)
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.ranks == (0,)


def test_another_problem_is_held_against_the_majority() -> None:
    kind, text = same(views(r0={"tokens_per_block": 32, "consumers": []}))
    assert kind == "AgreementFailed"
    assert text == (
        "rank 0 (r0) has another problem: consumers, tokens_per_block unlike the others"
    )


def test_of_two_the_lower_rank_is_the_measure() -> None:
    kind, text = same([view(0), view(1, tokens_per_block=32)])
    assert (kind, text.split(" has ")[0]) == ("AgreementFailed", "rank 1 (r1)")


def test_the_same_problem_written_in_another_order_is_the_same() -> None:
    turned = dict(reversed(question().items()))
    kind, _ = same([view(0), LocalView.of(turned, entry(1))])
    assert kind == "Plan"


def filled(rank: int, order: str) -> LocalView:
    """Three pools by equal shares, the first of which has more by its floor."""
    pools = [{"name": n, "bytes": 10, "min_blocks": 20 if n == "a" else 0} for n in "abc"]
    sections = {"pools": pools, "fill": {"shares": dict.fromkeys(order, "1/3")}}
    return LocalView.of(sections, {"name": f"r{rank}", "quota": 300})


def test_the_order_of_shares_is_part_of_the_problem() -> None:
    """Shares are filled in order: what a floor takes is missing to the later ones."""
    assert plan_together(filled(0, "acb"), NullComm()).blocks == {"a": 20, "b": 0, "c": 10}
    assert same([filled(0, "acb"), filled(1, "acb")])[0] == "Plan"
    kind, text = same([filled(0, "abc"), filled(1, "acb")])
    assert kind == "AgreementFailed"
    assert text == "rank 1 (r1) has another problem: fill unlike the others"


def test_other_options_are_named() -> None:
    hub = Hub()

    def work(rank: int) -> Told:
        comm = hub.comm(rank, range(3))
        try:
            plan_together(view(rank), comm, 20, solver="bisect" if rank == 1 else "auto")
        except AgreementFailed as error:
            return Told("", str(error), 0)
        return Told("Plan", "", 0)

    told = in_threads([lambda rank=rank: work(rank) for rank in range(3)])
    expected = "rank 1 (r1) has solver bisect where the others have auto"
    assert [answer and answer.text for answer in told] == [expected] * 3


def test_names_that_clash_are_one_error_for_all() -> None:
    clash = [LocalView.of(question(), entry(rank, name="gpu")) for rank in range(3)]
    kind, text = same(clash)
    assert kind == "InvalidProblem"
    assert text.splitlines() == [
        f"ranks[{rank}].name: expected a unique name, got 'gpu' again" for rank in (1, 2)
    ]


def test_a_problem_without_a_plan_is_one_error_for_all() -> None:
    needs = {"pools": [{"name": "paged", "bytes": BLOCK_BYTES, "min_blocks": 86_600}]}
    kind, text = same([view(rank, **needs) for rank in range(RANKS)])
    assert kind == "Infeasible"
    assert "rank r1 is short by" in text  # 14.46 GiB outside torch
    assert "rank r0 " not in text


def test_a_rank_that_never_calls_is_named_in_time() -> None:
    told = told_by([view(0), None, view(2), None], timeout=0.3)
    for rank in (0, 2):
        answer = told[rank]
        assert answer is not None
        assert answer[:2] == ("AgreementFailed", "ranks 1, 3 did not answer within 0.3 s")
        assert 0.3 <= answer.seconds < 3


def test_a_plan_that_differs_on_one_rank_is_refused_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()

    def lying(problem: Any, **options: Any) -> Plan:
        answer = real(problem, **options)
        import threading

        if threading.current_thread().name == "liar":
            return answer.model_copy(update={"digest": "0" * 64})
        return answer

    real = together.plan
    monkeypatch.setattr(together, "plan", lying)

    def work(rank: int) -> Told:
        import threading

        threading.current_thread().name = "liar" if rank == 2 else f"honest {rank}"
        return ask(view(rank), hub.comm(rank, range(3)))

    told = in_threads([lambda rank=rank: work(rank) for rank in range(3)])
    texts = {answer.text for answer in told if answer is not None}
    assert len(texts) == 1
    first, second = texts.pop().splitlines()
    assert first == f"rank 2 (r2) came to plan {'0' * 64}"
    assert second.startswith("the others came to plan ")


def test_a_solver_that_breaks_on_one_rank_is_told_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def breaks(problem: Any, **options: Any) -> Plan:
        calls.append(1)
        if len(calls) == 1:
            raise MemoryError("out of memory")
        return real(problem, **options)

    real = together.plan
    monkeypatch.setattr(together, "plan", breaks)
    kind, text = same(views()[:3])
    assert kind == "AgreementFailed"
    assert " came to MemoryError: out of memory\nthe others came to plan " in text


class ByCallOrder:
    """Answers each gather with what was prepared for that call, whatever is asked."""

    def __init__(self, *answers: Callable[[bytes], list[bytes]]) -> None:
        self._answers = list(answers)
        self.asked: list[bytes] = []

    def all_gather(self, payload: bytes) -> list[bytes]:
        self.asked.append(payload)
        return self._answers.pop(0)(payload)


def peer(rank: int) -> bytes:
    """What another rank tells."""
    return message.tell(view(rank), {"solver": "auto", "timeout": "5 s"}).encode()


def test_the_first_call_gathers_views_and_the_second_outcomes() -> None:
    comm = ByCallOrder(lambda own: [own, peer(1)], lambda own: [own, own])
    answer = plan_together(view(0), comm, 5)
    assert [rank.name for rank in answer.ranks] == ["r0", "r1"]
    assert comm.asked[1].decode() == f"plan {answer.digest}"
    assert len(comm.asked) == 2


def test_a_failed_measurement_is_still_two_calls() -> None:
    comm = ByCallOrder(lambda own: [own, peer(1)], lambda own: [own, own])
    with pytest.raises(AgreementFailed, match=r"^rank 0: no device$"):
        plan_together(LocalView.failed("no device"), comm, 5)
    assert len(comm.asked) == 2


def test_an_outcome_of_another_rank_is_not_overlooked() -> None:
    comm = ByCallOrder(lambda own: [own, peer(1)], lambda own: [own, b"plan 0"])
    with pytest.raises(AgreementFailed, match=r"rank 1 \(r1\) came to plan 0"):
        plan_together(view(0), comm, 5)


def test_junk_from_a_rank_is_its_error() -> None:
    comm = ByCallOrder(lambda own: [own, b"\xff\x00"], lambda own: [own, own])
    with pytest.raises(AgreementFailed, match=r"^rank 1: it sent something other than a view"):
        plan_together(view(0), comm, 5)


def test_a_communicator_that_loses_the_own_view_is_found_out() -> None:
    comm = ByCallOrder(lambda own: [peer(1)], lambda own: [own])
    with pytest.raises(AgreementFailed, match="did not return a rank's own view"):
        plan_together(view(0), comm, 5)


def test_a_communicator_that_breaks_says_what_is_common() -> None:
    def breaks(payload: bytes) -> list[bytes]:
        raise ConnectionResetError("[127.0.0.1:40123] reset")

    with pytest.raises(AgreementFailed) as caught:
        plan_together(view(0), ByCallOrder(breaks), 5)
    assert str(caught.value) == (
        "the communicator failed: a rank has ended, or the network is broken"
    )
    assert isinstance(caught.value.__cause__, ConnectionResetError)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "5"])
def test_a_timeout_is_seconds(timeout: Any) -> None:
    with pytest.raises(InvalidProblem, match="timeout: expected seconds above 0"):
        plan_together(view(0), NullComm(), timeout)


def test_suspicious_readings_are_named_in_the_notes() -> None:
    heavy = entry(2)
    heavy["memory"]["non_torch"] = "34GiB"  # ROCm/ATOM #1495: heavy ranks
    hub = Hub()
    plans: dict[int, Plan] = {}

    def work(rank: int) -> Told:
        own = view(rank) if rank != 2 else LocalView.of(question(), heavy)
        plans[rank] = plan_together(own, hub.comm(rank, range(3)), 20)
        return Told("", "", 0)

    in_threads([lambda rank=rank: work(rank) for rank in range(3)])
    assert plans[0].notes == plans[1].notes == plans[2].notes
    named = [note for note in plans[0].notes if note.startswith("rank r2")]
    assert len(named) == 2
    assert "non_torch 36_507_222_016 B (34.00 GiB) is 11.8 % of total" in named[0]
    assert "below the median of stage 0" in named[1]
    assert not any(note.startswith(("rank r0", "rank r1")) for note in plans[0].notes)


def test_a_plan_of_all_ranks_can_be_resized() -> None:
    answer = plan_together(view(0), NullComm(), 5)
    assert answer.resize("100GiB").blocks["paged"] == (100 * 2**30 - STATE_BYTES) // BLOCK_BYTES


def test_the_figures_are_those_of_the_log() -> None:
    assert len(NON_TORCH) == 8
