"""Several engines on one card: their problems as one, and the flags of each start."""
