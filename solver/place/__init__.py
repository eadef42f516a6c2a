"""Which layers and experts lie in which memory space: a stage of its own, before pools."""
