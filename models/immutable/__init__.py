"""Immutable mappings, and values that are computed on first use without a lock."""
