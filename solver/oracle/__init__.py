"""The oracle: replays any plan and enumerates small problems, by simulation.

It shares no formula with the solver: blocks are counted token by token and instant by instant,
bytes are laid out in granules, and monotony is never assumed, only verified.
"""

from kvplan.solver.oracle.check import Violation, check
from kvplan.solver.oracle.enumeration.best import Best, best

__all__ = ["Best", "Violation", "best", "check"]
