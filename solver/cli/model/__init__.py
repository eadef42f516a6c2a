"""kvplan model: a config and an engine's flags in, a problem out."""
