"""From a point to a plan: decisions, budget, notes, shortages and refusals."""
