"""What `kvplan check-log` prints: one start, and the difference of two."""
