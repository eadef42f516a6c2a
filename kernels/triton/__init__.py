"""The batched search fused into one launch: kernel, launcher, and how a problem becomes constants.

The plain references are `kvplan.kernels.batch` (arrays) and `kvplan.kernels.batch.scalar`.
"""

from kvplan.kernels.triton.launch import fit

__all__ = ["fit"]
