"""A second opinion on page layouts: pages laid out one by one, and every layout of a small model.

Imports the models and the oracle's own blocks; it owes the search of `solver.layout` nothing.
"""

from kvplan.solver.oracle.layouts.every_layout import best_layout
from kvplan.solver.oracle.layouts.layout_faults import layout_faults

__all__ = ["best_layout", "layout_faults"]
