"""Which layers go where: slices in order, pipelines, and devices in any order."""
