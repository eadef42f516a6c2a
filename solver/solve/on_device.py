"""`bisect` on a device: the problem as one scenario of the batched search, on torch tensors.

torch is imported on first use.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from kvplan.kernels.instance import Instance
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer, Point, goal_value
from kvplan.models import InvalidProblem, Plan
from kvplan.models.messages import one_line, shown
from kvplan.solver.answer.assembled_plan import assemble
from kvplan.solver.answer.credit import Credit
from kvplan.solver.answer.refusal import infeasible
from kvplan.solver.formulate.formulation import Formulation
from kvplan.solver.solve.by_search import plan_by_search

if TYPE_CHECKING:
    from kvplan.kernels.arrays import Fits, Scenarios

Kernel = Literal["arrays", "triton"]


class Device(NamedTuple):
    """Where bisect searches, and by what."""

    name: Any  # "cpu", "cuda", "cuda:1", ..., or a torch.device; None: NumPy, for sweeps
    kernel: Kernel = "arrays"


def read_device(name: Any, kernel: Kernel, solver: str) -> Device | None:
    """The arguments of a call.

    Raises
    ------
    InvalidProblem : a solver that runs on no device, no such device or kernel, or no torch.
    """
    if kernel not in get_args(Kernel):
        raise InvalidProblem.at("kernel", "arrays or triton", shown(kernel))
    if name is None:
        if kernel != "arrays":
            raise InvalidProblem.at("kernel", "a device for it to run on", f"{kernel} alone")
        return None
    if solver != "bisect":
        raise InvalidProblem.at("device", "solver bisect beside it", f"solver {solver}")
    check_device(name)
    return Device(name, kernel)


def check_device(name: Any, path: str = "device") -> None:
    """Try a sum on the device, once for each.

    Raises
    ------
    InvalidProblem : torch is missing or has no such device; `path` says where it was named.
    """
    try:
        import torch
    except ImportError as error:
        expected = "torch for it (pip install 'kvplan[device]')"
        raise InvalidProblem.at(path, expected, f"{shown(str(name))} ({error})") from None
    try:
        _try_sum(str(name))
    except Exception:  # each backend of torch has errors of its own
        expected = f"a device that torch has here ({', '.join(_devices(torch))})"
        raise InvalidProblem.at(path, expected, shown(str(name))) from None


@cache
def _try_sum(name: str) -> None:
    import torch

    one = torch.ones(1, dtype=torch.int64, device=name)
    if int(one + one) != 2:
        raise RuntimeError(f"one and one on {name} are not two")


def _devices(torch: Any) -> list[str]:
    """The host, and every accelerator."""
    found = ["cpu"]
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator().type
        found += [f"{kind}:{index}" for index in range(torch.accelerator.device_count())]
    return found


def solve_on(device: Device, formulation: Formulation, search: Search) -> Plan:
    """`plan` by the batched search; by the host's, with a note, where that cannot answer.

    Raises
    ------
    Infeasible, SolverError : as on the host.
    """
    from kvplan.kernels.arrays import RefusedError, Scenarios

    notes: tuple[str, ...] = ()
    try:
        fits, why = fits_on(device, search.instance, Scenarios(1))
        point = fits.point(0)
    except (RefusedError, RuntimeError) as error:  # torch reports memory and drivers as the latter
        note = f"device: the host searched instead of {device.name}: {first_line(error)}"
        return plan_by_search(formulation, search, (note,))
    if point is None:
        raise infeasible(formulation, search)
    certificate = f"nested on {device.name}"
    if why is not None:
        notes = (f"device: arrays instead of the fused kernel: {why}",)
    elif device.kernel == "triton":
        certificate = f"{certificate} (triton)"
    credit = Credit("bisect", certificate, notes=notes)
    return assemble(formulation, search, _proven(search, point), credit)


def fits_on(device: Device, instance: Instance, scenarios: Scenarios) -> tuple[Fits, str | None]:
    """Every scenario; and why arrays answered, where the fused kernel was wanted.

    Raises
    ------
    RefusedError : the batched search cannot answer it.
    """
    from kvplan.kernels.arrays import RefusedError, fit

    why = None
    if device.kernel == "triton":
        try:
            if device.name is None:
                raise RefusedError("it runs on a device alone")
            from kvplan.kernels.triton import fit as fit_fused

            return fit_fused(instance, scenarios, device=device.name), None
        except (RefusedError, ImportError, RuntimeError) as error:
            why = first_line(error)
    return fit(instance, scenarios, device=device.name), why


def first_line(error: Exception) -> str:
    """The first line of a message of torch; traces and advice follow it."""
    return one_line(str(error).strip().partition("\n")[0])


def _proven(search: Search, point: Point) -> Answer:
    """The batched search takes plain goals alone, so each is at its bound."""
    instance = search.instance
    values = tuple(goal_value(instance, search.demand, point, goal) for goal in instance.objectives)
    return Answer(point, values, values, exact=True)
