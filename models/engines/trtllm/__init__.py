"""TensorRT-LLM's KVCacheManagerV2: coalesced slots, floors, and a quota split by ratio."""

from kvplan.models.engines.trtllm.adapter import assumptions, build, figures
from kvplan.models.engines.trtllm.dialect import DIALECT
from kvplan.models.engines.trtllm.flags import FLAGS

__all__ = ["DIALECT", "FLAGS", "PLATFORMS", "assumptions", "build", "figures"]
PLATFORMS = ("cuda",)
"""With one memory for GPU and host that this engine runs on."""
