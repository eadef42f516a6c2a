"""`bisect` on a device: the host's plan bit for bit, or the host's own with a note."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kvplan.models import Infeasible, InvalidProblem, Plan, Problem, SolverError, Undecided
from kvplan.solver import Planner, plan
from support.cases import ORDERED, load
from support.instances import small_problem
from support.micro import micro, one, pool
from support.scenarios import DEVICE
from support.unproven import plain, weighted, with_fields

torch = pytest.importorskip("torch", reason="torch is not installed")

ON_DEVICE = f"nested on {DEVICE}"
INSTEAD = f"device: the host searched instead of {DEVICE}: "


def outcome(problem: Problem, **options: Any) -> dict[str, Any] | str:
    """Every field of the plan, or why there is none."""
    try:
        return plan(problem, solver="bisect", **options).model_dump()
    except (Infeasible, Undecided) as error:
        return f"{type(error).__name__}: {error}".partition(" (")[0]


def assert_same(problem: Problem) -> bool:
    """The device's plan is the host's but for who answered; whether the device did."""
    host, found = outcome(problem), outcome(problem, device=DEVICE)
    if isinstance(host, str) or isinstance(found, str):
        assert found == host
        return False
    is_device = found["proof"]["certificate"] == ON_DEVICE
    if is_device:
        found["proof"]["certificate"] = "nested"
    else:
        *notes, note = found["notes"]
        assert note.startswith(INSTEAD)
        found["notes"] = tuple(notes)
    assert found == host
    assert host["proof"]["solver"] == "bisect"
    return is_device


@pytest.mark.parametrize("name", ORDERED)
def test_shipped_cases(name: str) -> None:
    problem = load(name)
    assert assert_same(problem)
    assert plan(problem, solver="bisect", device=DEVICE).digest == plan(problem).digest


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_random_instances(start: int) -> None:
    answered = 0
    for seed in range(start, start + 50):
        try:
            problem = small_problem(seed, constraints=False, weighted=seed % 5 == 0)
        except InvalidProblem:
            continue
        answered += assert_same(problem)
    assert answered > 10


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (weighted, "the batched search does not support weighted goal "),
        (lambda: micro(2**60, **pool(bytes=1), **one(2**60)), "64-bit integers hold"),
        (
            lambda: micro(
                99, constraints=[{"terms": {"blocks:p": 1}, "max": 7}], **one(20, fit="capacity")
            ),
            "the batched search does not support linear constraints (1)",
        ),
    ],
)
def test_what_the_device_does_not_take_is_searched_on_the_host(problem: Any, why: str) -> None:
    try:
        answer = plan(problem(), solver="bisect", device=DEVICE)
    except Infeasible:
        pytest.fail("it has a plan")
    host = plan(problem(), solver="bisect")
    assert answer.notes[:-1] == host.notes
    assert answer.notes[-1].startswith(INSTEAD)
    assert why in answer.notes[-1]
    assert with_fields(answer) == with_fields(host)
    assert answer.digest == host.digest


def test_a_refusal_is_the_host_s() -> None:
    huge = [{"name": f"w{i}", "bytes": 2**63 - 1} for i in range(3)]
    for problem in (micro(9, **one(4)), micro(9, consumers=huge, **one(4))):
        refusals = []
        for device in (None, DEVICE):
            with pytest.raises(Infeasible) as caught:
                plan(problem, solver="bisect", device=device)
            refusals.append(caught.value)
        host, found = refusals
        assert found.args == host.args
        assert found.remedies == host.remedies


def test_a_device_that_fails_is_replaced_by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("out of memory.\nTried to allocate 20 GiB")

    monkeypatch.setattr("kvplan.kernels.arrays.fit", fail)
    answer = plan(plain(), solver="bisect", device=DEVICE)
    assert answer.notes[-1] == f"{INSTEAD}out of memory."
    assert with_fields(answer) == ("optimal", "bisect", "nested")


def test_a_wrong_answer_of_a_device_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvplan.kernels import arrays

    def too_many(*arguments: Any, **options: Any) -> Any:
        fits = right(*arguments, **options)
        return type(fits)(**{**vars(fits), "usable": fits.usable + 1})

    right = arrays.fit
    monkeypatch.setattr(arrays, "fit", too_many)
    with pytest.raises(SolverError, match="exceeds its quota by"):
        plan(plain(), solver="bisect", device=DEVICE)


# --- Planner and resize ---------------------------------------------------------------------------


def certificates(*plans: Plan) -> list[str]:
    return [answer.proof.certificate for answer in plans]


def test_a_resize_stays_on_the_device() -> None:
    problem = load("strata_765")
    first = plan(problem, solver="bisect", device=DEVICE)
    second = first.resize("9GiB")
    third = second.resize("16GiB")
    assert certificates(first, second, third) == [ON_DEVICE] * 3
    host = plan(problem, solver="bisect").resize("9GiB")
    assert host.digest == second.digest
    assert certificates(host) == ["nested"]


def test_a_planner_answers_on_a_device() -> None:
    planner = Planner(load("strata_plan"))
    host = planner.plan(quota="12GiB", solver="bisect")
    found = planner.plan(quota="12GiB", solver="bisect", device=DEVICE)
    assert certificates(host, found) == ["nested", ON_DEVICE]
    assert found.digest == host.digest == planner.plan(quota="12GiB").digest
    assert certificates(found.resize("11GiB")) == [ON_DEVICE]
    with pytest.raises(InvalidProblem, match="device: expected solver bisect"):
        planner.plan(device=DEVICE)


def test_the_fused_kernel_gives_the_same_plan_or_leaves_it_to_the_arrays() -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    options: Any = {"solver": "bisect", "device": DEVICE, "kernel": "triton"}
    answer = plan(load("strata_765"), **options)
    assert answer.digest == plan(load("strata_765")).digest
    if answer.proof.certificate == f"{ON_DEVICE} (triton)":
        assert not [note for note in answer.notes if note.startswith("device: ")]
        assert answer.resize("9GiB").proof.certificate == f"{ON_DEVICE} (triton)"
    else:  # compiled for no device
        assert certificates(answer) == [ON_DEVICE]
        assert answer.notes[-1].startswith("device: arrays instead of the fused kernel: ")
    answer = plan(weighted(), **options)
    assert not any("fused kernel" in note for note in answer.notes)
    assert answer.notes[-1].startswith(INSTEAD)


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nope", "", "meta", "cpu:x", "cuda:4711", 3.5, "a\nb"])
def test_a_device_that_does_not_exist_is_one_line(name: Any) -> None:
    with pytest.raises(InvalidProblem) as caught:
        plan(plain(), solver="bisect", device=name)
    (fault,) = caught.value.faults
    assert str(fault).startswith("device: expected a device that torch has here (cpu")
    assert str(fault).endswith(f"got {str(name)!r}")
    assert "\n" not in str(fault)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"device": "cpu"}, "device: expected solver bisect beside it, got solver auto"),
        (
            {"device": "cpu", "solver": "cp-sat"},
            "device: expected solver bisect beside it, got solver cp-sat",
        ),
        (
            {"kernel": "triton", "solver": "bisect"},
            "kernel: expected a device for it to run on, got triton alone",
        ),
        (
            {"kernel": "numba", "solver": "bisect", "device": "cpu"},
            "kernel: expected arrays or triton, got 'numba'",
        ),
    ],
)
def test_arguments_that_do_not_go_together(options: Any, line: str) -> None:
    with pytest.raises(InvalidProblem) as caught:
        plan(plain(), **options)
    assert str(caught.value) == line


def test_a_torch_device_will_do() -> None:
    answer = plan(plain(), solver="bisect", device=torch.device(DEVICE))
    assert certificates(answer) == [ON_DEVICE]


def test_without_torch_a_device_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InvalidProblem) as caught:
        plan(plain(), solver="bisect", device="cuda")
    line = str(caught.value)
    assert line.startswith("device: expected torch for it (pip install 'kvplan[device]'), got ")
    assert "\n" not in line
