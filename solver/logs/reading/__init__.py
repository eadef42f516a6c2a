"""From lines to records: who speaks, when, and what was read."""
