"""The search of one tile of scenarios: bounds, demands and goals in order, over arrays."""
