"""A question answered: which solver, and what it proves."""
