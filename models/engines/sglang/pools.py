"""SGLang's pools as a problem: what the engine would allocate, or the same bytes shared out best.

One page is a block. The pools hold one further page (padding slot), which the engine takes from the
slack outside this budget; a state pool's padding slot lies inside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.alternatives import laid_over, offering
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.served import refuse_cross
from kvplan.models.engines.sglang.budget import estimates, rank_entries, rest_bytes
from kvplan.models.engines.sglang.cells import (
    Cells,
    cells,
    has_window_pool,
    window_tokens,
)
from kvplan.models.engines.sglang.choices import choices, labels
from kvplan.models.engines.sglang.compressed import build_compressed, is_compressed
from kvplan.models.engines.sglang.launch.flags import FLAGS, check_sizes, ratio_rule, swa_ratio
from kvplan.models.engines.sglang.launch.resolve import resolve
from kvplan.models.engines.sglang.served import check_served
from kvplan.models.engines.sglang.state_slots import recurrent_layers, state_section
from kvplan.models.engines.sglang.window_demand import request_cap, request_tokens, shared_tokens
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown
from kvplan.models.problem import Problem


def build(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """Make the problem whose plan is what SGLang 0.5.23 would allocate.

    Raises
    ------
    InvalidProblem : a model or flags that the engine, or this adapter, refuses.
    """
    refuse_cross(architecture, "sglang")
    check_served(architecture)
    bare = _launched(architecture, settings)
    return offering(
        bare,
        labels(settings),
        choices(settings),
        lambda changes: _launched(architecture, laid_over(FLAGS, settings, changes)),
        estimates(settings),
    )


def _launched(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """The problem alone."""
    check_sizes(settings)
    known = resolve(architecture, settings)
    if is_compressed(architecture):
        return build_compressed(architecture, known)
    return _problem(architecture, known, free=False)


def open_split(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """Make the same pools without the engine's fixed ratios; the goals are left to the caller.

    The flag's range (0, 1] stays: no more window tokens than full ones.
    """
    return _problem(architecture, resolve(architecture, settings), free=True)


def _problem(architecture: Architecture, settings: Mapping[str, Any], *, free: bool) -> Problem:
    stages = cells(architecture, settings)
    states: dict[str, list[Any]] = {"pools": [], "caches": [], "goals": [], "constraints": []}
    if recurrent_layers(architecture):
        states = state_section(architecture, settings, rest_bytes(settings), free=free)
    tokens = _token_section(architecture, settings, stages, free=free)
    return Problem.model_validate(
        {
            "name": f"{architecture.name} in SGLang",
            "ranks": rank_entries(architecture, settings),
            "tokens_per_block": int(settings["page_size"]),
            **{key: states[key] + tokens[key] for key in states},
            "fill": "none",
        }
    )


def _token_section(
    architecture: Architecture, settings: Mapping[str, Any], stages: list[Cells], *, free: bool
) -> dict[str, list[Any]]:
    """Pools of tokens: one, or full and window tokens apart; none without attention."""
    if not any(cell.full or cell.window for cell in stages):
        return {"pools": [], "caches": [], "goals": [], "constraints": []}
    page = int(settings["page_size"])
    full: dict[str, Any] = {
        "name": "full",
        "bytes": {str(stage): cell.full * page for stage, cell in enumerate(stages)},
        "min_blocks": 1,
    }
    if settings["max_total_tokens"] is not None:
        full["max_blocks"] = int(settings["max_total_tokens"]) // page
        if not full["max_blocks"]:
            expected = f"at least one page of {page} tokens"
            raise InvalidProblem.at(
                "--max-total-tokens", expected, shown(settings["max_total_tokens"])
            )
    section: dict[str, list[Any]] = {
        "pools": [full],
        "caches": [{"name": "full", "pool": "full", "kind": "full"}],
        "goals": [] if free else ["blocks:full"],
        "constraints": [],
    }
    if has_window_pool(architecture, settings):
        _add_window(section, architecture, settings, stages, free=free)
    return section


def _add_window(
    section: dict[str, list[Any]],
    architecture: Architecture,
    settings: Mapping[str, Any],
    stages: list[Cells],
    *,
    free: bool,
) -> None:
    """Add the window pool, at least window + page + 1 tokens (validate_swa_pool_size).

    A running request is counted as min(length, window) and one page more.
    """
    page, window = int(settings["page_size"]), window_tokens(architecture)
    pool: dict[str, Any] = {
        "name": "window",
        "bytes": {str(stage): cell.window * page for stage, cell in enumerate(stages)},
        "min_blocks": (window + page) // page + 1,
    }
    cache = {"kind": "window", "keep": "in_flight", "window": window, "extra_blocks": 1}
    cap = request_cap(settings, window)
    if cap is not None and not free:
        capped = _limited(-(-cap // page) * page, settings, stages)
        pool["min_blocks"] = pool["max_blocks"] = -(-capped // page)
    elif free and cap is not None:
        cache = _capped_cache(pool, settings, window)
    elif free:
        terms = {"blocks:full": 1, "blocks:window": -1}
        section["constraints"].append({"terms": terms, "min": 0})
    else:
        section["constraints"] += _ratio_rules(architecture, settings, stages)
    section["pools"].append(pool)
    section["caches"].append({"name": "window", "pool": "window", **cache})
    if not free:
        section["goals"].append("blocks:window")


def _ratio_rules(
    architecture: Architecture, settings: Mapping[str, Any], stages: list[Cells]
) -> list[dict[str, Any]]:
    """Hold the engine's split on every stage (HybridSWAPoolConfigurator)."""
    page, rest = int(settings["page_size"]), rest_bytes(settings)
    pages = [(Fraction(cell.full * page), Fraction(cell.window * page)) for cell in stages]
    return ratio_rule(swa_ratio(architecture, settings), pages, [rest] * len(pages))


def _limited(cap: int, settings: Mapping[str, Any], stages: list[Cells]) -> int:
    """Window tokens under --max-total-tokens: no more than it, where it limits the full pool."""
    limit, page = settings["max_total_tokens"], int(settings["page_size"])
    if limit is None:
        return cap
    left = min((rest_bytes(settings) - cap * cell.window) // cell.full for cell in stages)
    return min(cap, int(limit)) if int(limit) < left // page * page else cap


def _capped_cache(pool: dict[str, Any], settings: Mapping[str, Any], window: int) -> dict[str, Any]:
    """Window tokens under the request cap: whole pages a request, and what all share beside."""
    page = int(settings["page_size"])
    pool["reserved_blocks"] = -(-shared_tokens(settings) // page)
    return {"kind": "state", "blocks": -(-request_tokens(settings, window) // page)}
