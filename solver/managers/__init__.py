"""kvplan inside real KV-cache managers: what an engine's plug-in point calls at construction.

Nothing here is imported until an engine loads it, and no module imports an engine when it is
imported itself. Where KVPLAN is off, not even kvplan's own models are loaded. Each engine's package
has `question` (the engine's own objects -> a problem), `apply` (a plan -> the engine's own type)
and, where the engine has plug-ins, `register`.
"""

from collections.abc import Mapping


def is_off(environment: Mapping[str, str]) -> bool:
    """Whether nothing is asked for: KVPLAN is unset, empty or off."""
    return environment.get("KVPLAN", "off") in ("", "off")
