"""SGLang 0.5.23: pools of tokens by a cell size, window and state pools by fixed ratios."""

from kvplan.models.engines.sglang.figures import figures
from kvplan.models.engines.sglang.launch.dialect import DIALECT
from kvplan.models.engines.sglang.launch.flags import FLAGS
from kvplan.models.engines.sglang.launch.resolve import assumptions
from kvplan.models.engines.sglang.pools import build
from kvplan.models.engines.sglang.refusal import refusal

__all__ = ["DIALECT", "FLAGS", "assumptions", "build", "figures", "refusal"]
