"""vLLM 0.19 to 0.33: one pool of blocks for groups of layers of one width."""

from kvplan.models.engines.vllm.adapter import build, figures, refusal
from kvplan.models.engines.vllm.launch.assumptions import assumptions
from kvplan.models.engines.vllm.launch.dialect import DIALECT
from kvplan.models.engines.vllm.launch.flags import FLAGS

__all__ = ["DIALECT", "FLAGS", "assumptions", "build", "figures", "refusal"]
