"""The demands of a problem, and a minimal set of them that cannot hold together."""
