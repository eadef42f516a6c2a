"""From a problem to the integers that the solvers see."""
