"""From the words of a command line to an engine's settings."""
