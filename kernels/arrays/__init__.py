"""The nested search for many scenarios at once, over the arrays of any library and device.

`fit` answers; `scenarios` says what may vary, `results` what comes back. One source runs on NumPy
and on torch tensors; `kernels.triton` fuses the same search into one launch.
"""

from kvplan.kernels.arrays.batch import fit
from kvplan.kernels.arrays.results import Fits
from kvplan.kernels.arrays.scenarios import Given, RefusedError, Scenarios

__all__ = ["Fits", "Given", "RefusedError", "Scenarios", "fit"]
