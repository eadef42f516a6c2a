"""The oracle: replays any plan and enumerates small problems, by simulation.

It shares no formula with the solver: blocks are counted token by token and instant by instant,
bytes are laid out in granules, and nothing is assumed to be monotone that was not verified.
"""

from kvplan.solver.oracle.check import Violation, check
from kvplan.solver.oracle.enumeration.best import Best, best

__all__ = ["Best", "Violation", "best", "check"]
