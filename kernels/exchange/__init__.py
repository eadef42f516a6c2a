"""Weighted goals by arrays: all candidates of all variables compared at once."""
