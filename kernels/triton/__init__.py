"""The batched search fused into one launch: kernel, launcher, and how a problem becomes constants.

The plain references are `kvplan.kernels.arrays` (arrays) and `kvplan.kernels.arrays.scalar`.
"""

from kvplan.kernels.triton.launch import fit

__all__ = ["fit"]
