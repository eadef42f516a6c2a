"""Which seam a version of vLLM has."""

from __future__ import annotations

import logging
import os

from kvplan.models.engines.vllm.launch.versions import version_of
from kvplan.solver.managers.environment import is_strict
from kvplan.solver.managers.guard import Guard
from kvplan.solver.managers.vllm import builder, functions
from kvplan.solver.managers.vllm.seams import PLANNING, UTILS, groups_before_memory
from kvplan.solver.managers.vllm.sizing import LOG, vllm_version


def plug_in() -> None:
    """Plug into the vLLM that is loaded here; a version that kvplan does not know is left alone.

    Raises
    ------
    StartRefused : KVPLAN_STRICT, and the version is unknown or lacks the seam.
    """
    version = vllm_version()
    guard = Guard(f"vLLM {version}", LOG, strict=is_strict(os.environ))
    guard.attempt(lambda: _plug_in(version))
    logging.getLogger(__name__).debug("kvplan is plugged into vLLM %s", version)


def _plug_in(version: str) -> None:
    if not groups_before_memory(version_of(version.split("+")[0])):
        functions.install(UTILS, deals=True)
    else:
        builder.install()
        functions.install(PLANNING, deals=False)
