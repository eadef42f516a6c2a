"""ATOM's plan_pools as a problem: state entries first, then as many blocks as the rest holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.alternatives import laid_over, offering
from kvplan.models.engines.atom.choices import choices, labels
from kvplan.models.engines.atom.entries import block_bytes, entries_of_request, state_bytes
from kvplan.models.engines.atom.flags import FLAGS, block_tokens, stage_layers
from kvplan.models.engines.atom.served import check_served
from kvplan.models.engines.estimates import Estimate, total_estimate
from kvplan.models.engines.layers import Architecture, Compressed
from kvplan.models.engines.missing import no_budget
from kvplan.models.engines.served import refuse_cross
from kvplan.models.errors import InvalidProblem
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem

SAFETY_PERCENT = 2
PEAK = "weights (estimated peak)"
GIB = 2**30
MOST_PEAK_BYTES, MOST_OUTSIDE_BYTES = 4 * GIB, 16 * GIB
SHARES = (10, 30, 50, 70, 90, 100)  # percent of the longest request, in the capacity table


def build(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """Make the problem whose plan is what ATOM (plan_pools) would allocate.

    States: max_num_seqs x entries a request + extra + staging; blocks: what is left, at least one.

    Raises
    ------
    InvalidProblem : no budget, or stages that nothing partitions.
    """
    check_served(architecture)
    refuse_cross(architecture, "atom")
    bare = _problem(architecture, settings, free=False)
    return offering(
        bare,
        labels(bare),
        choices(settings),
        lambda changes: _problem(architecture, laid_over(FLAGS, settings, changes), free=False),
        estimates(settings),
    )


def open_split(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """Make the same pools with as many state entries as the caller's goals want."""
    return _problem(architecture, settings, free=True)


def _problem(architecture: Architecture, settings: Mapping[str, Any], *, free: bool) -> Problem:
    stages = stage_layers(architecture, settings)
    each = {str(s): block_bytes(architecture, settings, part) for s, part in enumerate(stages)}
    shards = int(settings["decode_context_parallel_size"])
    paged: dict[str, Any] = {"name": "paged", "kind": "full", "pool": "paged"}
    sections: dict[str, list[Any]] = {"pools": [], "caches": [], "batches": []}
    if not any(each.values()):
        raise InvalidProblem.at("--engine atom", "a model with paged layers", architecture.name)
    if state_bytes(architecture, settings):
        _add_states(sections, architecture, settings, free=free)
    sections["pools"].append({"name": "paged", "bytes": each, "min_blocks": 1})
    sections["caches"].append({**paged, "shards": shards} if shards > 1 else paged)
    return Problem.model_validate(
        {
            "name": f"{architecture.name} in ATOM",
            "ranks": _ranks(settings, len(stages)),
            "tokens_per_block": block_tokens(architecture, settings),
            **sections,
            "fill": {"pools": ["paged"]},
        }
    )


def _add_states(
    sections: dict[str, list[Any]],
    architecture: Architecture,
    settings: Mapping[str, Any],
    *,
    free: bool,
) -> None:
    """Add the pool of states, which admits as many requests as it has entries for."""
    extra = int(settings["state_extra_entries"]) + int(settings["state_staging_entries"])
    entry = state_bytes(architecture, settings)
    sections["pools"].append({"name": "state", "bytes": entry, "reserved_blocks": extra})
    held = entries_of_request(architecture, settings)
    cache = {"name": "state", "pool": "state", "kind": "state", "blocks": held}
    sections["caches"].append(cache)
    if not free:
        slots = {"name": "slots", "capacity": 0, "count": int(settings["max_num_seqs"])}
        sections["batches"].append({"name": "slots", "requests": [slots]})


def estimates(settings: Mapping[str, Any]) -> tuple[Estimate, ...]:
    """What of the budget nobody measured: the card's total, and the peak beside the weights.

    A log of two ranks: 3.2 GiB of peak above the weights, 15.5 outside torch (ROCm/ATOM#3171).
    """
    weights = settings.get("weights_bytes")
    if settings["available"]:
        return ()
    found = total_estimate(settings)
    if settings["peak_torch"] is not None or weights is None:
        return found
    above = MOST_PEAK_BYTES + (MOST_OUTSIDE_BYTES if settings["non_torch"] is None else 0)
    return (*found, Estimate(PEAK, "--peak-torch", weights, weights, weights + above))


def assumptions(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """One line for each value that nobody gave, with the reason."""
    given, lines = getattr(settings, "given", ()), []
    if state_bytes(architecture, settings) and "max_num_seqs" not in given:
        lines.append(f"--max-num-seqs: not given -> {settings['max_num_seqs']} (ATOM's default)")
    asked, longest = settings["max_model_len"], longest_tokens(architecture, settings)
    if longest and asked != longest:
        before = "not given" if asked is None else asked
        lines.append(f"--max-model-len: {before} -> {longest} (the model's)")
    if any(isinstance(layer, Compressed) for layer in architecture.layers):
        lines.append(f"--block-size: {block_tokens(architecture, settings)} (compressed layers)")
    return (*lines, *(one.line for one in estimates(settings)))


def longest_tokens(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """--max-model-len, cut to the model's max_position_embeddings (Config.__post_init__)."""
    own = architecture.lengths.get("max_position_embeddings", 0)
    asked = settings["max_model_len"]
    return min(int(asked or own), own or int(asked or 0))


def _ranks(settings: Mapping[str, Any], stages: int) -> list[dict[str, Any]]:
    """Write the ranks: one for each measured figure (dealt to the stages), else one a stage."""
    measured = settings["available"] or ()
    if measured:
        if len(measured) % stages:
            expected = f"figures for {stages} stages alike"
            raise InvalidProblem.at("--available", expected, f"{len(measured)} figures")
        each = len(measured) // stages
        return [
            {"name": f"r{rank}", "stage": rank // each, "quota": int(count)}
            for rank, count in enumerate(measured)
        ]
    memory = _memory(settings)
    return [{"name": f"r{stage}", "stage": stage, "memory": memory} for stage in range(stages)]


def _memory(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Readings of a rank: min(total x share - charged terms, free), 2 % of the total for safety.

    A term that was not measured is estimated, and its name says so.
    """
    total, weights = settings.get("total_bytes"), settings.get("weights_bytes")
    if total is None or (settings["peak_torch"] is None and weights is None):
        expected = "--available, or --gpu with --peak-torch or --weights-gib"
        raise no_budget("atom", expected, settings)
    share = settings["gpu_memory_utilization"]
    memory: dict[str, Any] = {"total": total, "utilization": "0.9" if share is None else share}
    memory |= {"safety": total * SAFETY_PERCENT // 100, "connector": int(settings["connector"])}
    for term in ("free", "peak_torch", "non_torch", "graphs"):
        if settings[term] is not None:
            memory[term] = int(settings[term])
    found = {one.term: one.spread for one in estimates(settings)}
    if found:
        memory |= {"estimated": [one for one in found if one != PEAK], "ranges": found}
    if settings["peak_torch"] is None:
        memory["other"] = {PEAK: weights}
    return memory


def figures(
    architecture: Architecture, settings: Mapping[str, Any], problem: Problem, plan: Plan
) -> dict[str, str]:
    """Return the figures of the log: bytes of a block, blocks, entries, and the capacity table.

    A context c takes ceil(c / (block x context ranks)) blocks; so many fit as slots and blocks let.
    """
    blocks, tokens = plan.blocks["paged"], problem.tokens_per_block
    each = block_bytes(architecture, settings, stage_layers(architecture, settings)[0])
    lines = {"block_bytes": str(each), "num_kvcache_blocks": str(blocks)}
    lines["available_for_kv"] = gib(min(rank.quota for rank in plan.ranks))
    if "state" in plan.blocks:
        entry, entries = state_bytes(architecture, settings), plan.blocks["state"]
        lines |= {"state entries": str(entries), "state entry_bytes": str(entry)}
        lines["state reserved"] = gib(entries * entry)
    longest = longest_tokens(architecture, settings)
    span = tokens * int(settings["decode_context_parallel_size"])
    for percent in SHARES if longest else ():
        need = max(1, -(-(longest * percent // 100) // span))
        count = min(int(settings["max_num_seqs"]), blocks // need)
        lines[f"max_concurrent at {percent}%"] = str(count)
    return lines


def gib(count: int) -> str:
    """Bytes / 2^30 with two decimals; ATOM's "GB"."""
    sign, size = ("-" if count < 0 else ""), abs(count)
    hundredths = (size * 200 + GIB) // (2 * GIB)
    return f"{sign}{hundredths // 100}.{hundredths % 100:02d}GB"
