"""Mappings that refuse every change, and values that are computed late without a lock."""
