"""A CP-SAT model with forms, hints and no overflow, whatever it is about."""
