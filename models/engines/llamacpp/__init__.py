"""llama.cpp (llama-cpp-python 0.3.36): caches of cells, sized by the context that is asked for."""

from kvplan.models.engines.llamacpp.dialect import DIALECT
from kvplan.models.engines.llamacpp.flags import FLAGS
from kvplan.models.engines.llamacpp.pools import assumptions, at_context, build, figures

__all__ = ["DIALECT", "FLAGS", "PLATFORMS", "assumptions", "at_context", "build", "figures"]
PLATFORMS = ("cuda", "rocm", "metal")
"""With one memory for GPU and host that this engine runs on."""
