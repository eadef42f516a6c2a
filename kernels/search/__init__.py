"""The nested search over an instance's decisions: exact for goals in order."""
