"""Every rule of a problem over the decisions of a plan, in plain integers.

It owes the search nothing: it imports the models alone, reads nothing that the search computed and
shares no formula with it. A plan that it objects to is never returned.
"""

from kvplan.solver.check.rules import Check, Decisions

__all__ = ["Check", "Decisions"]
