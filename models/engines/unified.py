"""Machines whose GPU and host share one memory: what is in it, and what the GPU does not get."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kvplan.models.engines.estimates import Estimate

Platform = Literal["cuda", "rocm", "metal"]
GIB = 2**30
SYSTEM, BEYOND = "system and page cache", "beyond the GPU's reach"
_CHIP = r"m[0-9](?:pro|max|ultra)?"
_APPLE = re.compile(rf"(?:apple(?:{_CHIP})?|{_CHIP})([0-9]+)gb")


@dataclass(frozen=True)
class Machine:
    """One memory for GPU and host.

    Attributes
    ----------
    total : hundredths of a GiB, as the driver or the system reports it.
    kept : hundredths of a GiB that the GPU does not get: estimated, least, most.
    settable : what moves the limit of the GPU's reach; empty where the GPU reaches all of it, and
        the system lives inside what the driver calls the total.
    largest_buffer : bytes of one allocation; 0 without a limit.
    """

    platform: Platform
    total: int
    kept: tuple[int, int, int]
    settable: str = ""
    largest_buffer: int = 0

    @property
    def total_bytes(self) -> int:
        """Bytes of the memory."""
        return self.total * GIB // 100

    @property
    def estimate(self) -> Estimate:
        """What the GPU does not get, and what says it instead."""
        size, least, most = (figure * GIB // 100 for figure in self.kept)
        if self.settable:
            return Estimate(BEYOND, f"{self.settable}, then --total", size, least, most)
        return Estimate(SYSTEM, "--available", size, least, most)


def apple(ram_gib: int) -> Machine:
    """A Mac by its memory.

    Metal's recommendedMaxWorkingSetSize is 2/3 of it up to 36 GB and 3/4 above (21,845 of 32,768
    MiB: ggml-org/llama.cpp#2011; 96 of 128 GiB); newer systems give up to 0.74 and 0.84 of it
    (11.84 of 16: AlexsJones/llmfit#754; 107.52 of 128: antirez/ds4#893). One buffer has half of the
    memory (MTLDevice.maxBufferLength, llama.cpp#1706).
    """
    hundredths = 100 * ram_gib
    share, newer = ((2, 3), 74) if ram_gib <= 36 else ((3, 4), 84)
    kept = hundredths - hundredths * share[0] // share[1]
    least = hundredths - hundredths * newer // 100
    limit = "sysctl iogpu.wired_limit_mb"
    return Machine("metal", hundredths, (kept, least, kept), limit, ram_gib * GIB // 2)


MACHINES = {
    "GB10": Machine("cuda", 12169, (1825, 644, 2039)),
    "Jetson AGX Thor": Machine("cuda", 12280, (1570, 644, 2039)),
    "Jetson AGX Orin 64GB": Machine("cuda", 6140, (980, 490, 1470)),
    "Strix Halo 128GB": Machine(
        "rocm", 12778, (6531, 3178, 6531), "ttm.pages_limit", largest_buffer=2**32 - 4
    ),
    **{
        f"Apple {gib}GB": apple(gib)
        for gib in (8, 16, 18, 24, 32, 36, 48, 64, 96, 128, 192, 256, 512)
    },
}
"""GB10: DGX Spark. CUDA calls 121.69 GiB the total; free at boot are 101.3 to 102.2, caches dropped
(MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47), 0.85 of it serve (vllm-project/recipes#632), and an
idle system used 6.4 GiB (leptonai/gpud#1170). nvidia-smi shows no memory.
Thor: 109,671 MiB free before a load (ggml-org/llama.cpp#15969); its total is Orin's share of the
chips, its range GB10's. Orin: 61.4 GiB, of which 51.6 were free (ollama/ollama#3406); the range, a
half either way, is by judgement. Page cache counts as used there (ollama/ollama#12283).
Strix Halo: 127.78 GiB in all (unslothai/unsloth#10418); by default 63,968 MiB of it are the GPU's
(antirez/ds4#475), with ttm.pages_limit 96 GiB (noamsto/nix-amd-ai#42). A Vulkan buffer has at most
4,294,967,292 B on RADV (llama.cpp#5441), half of it on AMDVLK (GPUOpen-Drivers/AMDVLK#413)."""


def lacks_ram(plain: str) -> bool:
    """Whether a name without spaces means a Mac's chip, such as "m4max", but not its RAM."""
    return re.fullmatch(rf"(?:apple)?{_CHIP}", plain) is not None


def apple_named(plain: str) -> str:
    """The Mac that a name without spaces means: "m4max64gb" is "Apple 64GB"; else nothing."""
    match = _APPLE.fullmatch(plain)
    return f"Apple {match[1]}GB" if match else ""
