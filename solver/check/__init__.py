"""Every rule of a problem over the decisions of a plan, in plain integers.

It is independent of the search: it imports only the models, reads nothing that the search computed
and shares no formula with it. A plan that fails it is never returned.
"""

from kvplan.solver.check.ranges import Decisions
from kvplan.solver.check.rules import Check

__all__ = ["Check", "Decisions"]
