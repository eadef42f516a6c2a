"""Pictures of plans, sweeps and trade-offs: what to draw, and two ways to draw it."""
