"""ROCm/ATOM: state entries for max_num_seqs requests, and blocks from what is left."""

from kvplan.models.engines.atom.dialect import DIALECT
from kvplan.models.engines.atom.flags import FLAGS
from kvplan.models.engines.atom.pools import assumptions, build, figures

__all__ = ["DIALECT", "FLAGS", "PLATFORMS", "assumptions", "build", "figures"]
PLATFORMS: tuple[str, ...] = ()
"""With one memory for GPU and host that this engine runs on."""
