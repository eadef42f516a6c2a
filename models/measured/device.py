"""What torch and the driver report of a device; torch is imported on first use."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.models.errors import InvalidProblem
from kvplan.models.units import exact_bytes


class DeviceReading(NamedTuple):
    """Bytes of one device at one instant; of the allocator, since its peak was last reset."""

    total_bytes: int
    free_bytes: int
    reserved_bytes: int
    peak_bytes: int

    @property
    def outside_bytes(self) -> int:
        """(total - free) - reserved: bytes in use outside the allocator, by any process.

        Raises
        ------
        InvalidProblem : the allocator reserved more than the device has in use.
        """
        in_use = self.total_bytes - self.free_bytes
        if in_use < self.reserved_bytes:
            raise InvalidProblem.at(
                "non_torch",
                "a device with at least what the allocator reserved "
                f"({exact_bytes(self.reserved_bytes)}) in use",
                f"{exact_bytes(in_use)} (memory shared with the host, or freed while it was read)",
            )
        return in_use - self.reserved_bytes


def read_device(device: Any = None) -> DeviceReading:
    """Read a CUDA or ROCm device.

    Raises
    ------
    InvalidProblem : torch sees no such device.
    ImportError : torch is not installed.
    """
    try:
        import torch
    except ImportError:
        readings = "RankMemory(total=..., free=..., peak_torch=..., non_torch=...)"
        expected = f"install it, or pass the readings: {readings}"
        raise ImportError(f"reading a device takes torch; {expected}") from None

    if not torch.cuda.is_available():
        got = f"torch {torch.__version__} without one"
        raise InvalidProblem.at("device", "a CUDA or ROCm device that torch can use", got)
    free, total = torch.cuda.mem_get_info(device)
    stats = torch.cuda.memory_stats(device)
    held = int(stats.get("allocated_bytes.all.current", 0))
    return DeviceReading(
        total_bytes=int(total),
        free_bytes=int(free),
        reserved_bytes=int(stats.get("reserved_bytes.all.current", 0)),
        peak_bytes=max(held, int(stats.get("allocated_bytes.all.peak", 0))),
    )
