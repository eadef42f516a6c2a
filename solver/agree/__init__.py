"""One plan for ranks that measure different bytes: `plan_together(local, comm, timeout)`.

One gather of what every rank measured (or of the error it met), the same solve everywhere, one
compare. All ranks raise the same text, or none does. The communicators import torch or mpi4py when
they are built.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.solver.agree.alone import NullComm
    from kvplan.solver.agree.gather import Comm
    from kvplan.solver.agree.members import MemberComm
    from kvplan.solver.agree.mpi import MpiComm
    from kvplan.solver.agree.threads import Hub
    from kvplan.solver.agree.together import plan_together
    from kvplan.solver.agree.torch import TorchComm

__all__ = ["Comm", "Hub", "MemberComm", "MpiComm", "NullComm", "TorchComm", "plan_together"]

_HOMES = {
    "Comm": "gather",
    "Hub": "threads",
    "MemberComm": "members",
    "MpiComm": "mpi",
    "NullComm": "alone",
    "TorchComm": "torch",
    "plan_together": "together",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
