"""ATOM's state slots against its blocks: max_num_seqs fixes the slots, blind to the requests."""

from __future__ import annotations

from kvplan.models.engines.atom.entries import state_bytes
from kvplan.models.engines.atom.flags import FLAGS
from kvplan.models.engines.atom.pools import build, figures, open_split
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.errors import Infeasible, InvalidProblem
from kvplan.solver.advise.advice import Advice, held, idle_text, most, serving
from kvplan.solver.solve.plan import plan

LEFT_OUT = (
    "prefix reuse: free blocks keep more cached prefixes",
    "state checkpoints: free state entries and blocks hold them",
    "lengths: all requests are counted at the mean",
)

FLAG = "--max-num-seqs"


def optimize(architecture: Architecture, settings: Settings, mean_tokens: int) -> Advice:
    """Find the max_num_seqs with which the same bytes hold the most requests of a mean length.

    Raises
    ------
    InvalidProblem : a model without states, where slots cost nothing.
    """
    if not state_bytes(architecture, settings):
        expected = "a model with states (slots cost nothing without)"
        raise InvalidProblem.at("--optimize", expected, architecture.name)
    before, table = _tried(architecture, settings, mean_tokens)
    bound = most(serving(open_split(architecture, settings), mean_tokens))
    if bound <= before:
        return Advice({}, table, table, (before, before), bound, LEFT_OUT)
    changed = Settings(FLAGS, {key: settings[key] for key in settings.given} | {_KEY: bound})
    after, better = _tried(architecture, changed, mean_tokens)
    return Advice({FLAG: str(bound)}, table, better, (before, after), bound, LEFT_OUT)


_KEY = "max_num_seqs"


def _tried(
    architecture: Architecture, settings: Settings, mean_tokens: int
) -> tuple[int, dict[str, str]]:
    """Requests of the mean length that the engine's own sizing holds, and rows of the table."""
    problem = build(architecture, settings)
    try:
        answer = plan(problem)
    except Infeasible:
        return 0, {"pools": "refused by the engine"}
    count = held(problem, answer, mean_tokens)
    printed = figures(architecture, settings, problem, answer)
    labels = ("num_kvcache_blocks", "state entries", "state reserved")
    rows = {label: printed[label] for label in labels}
    need = -(-mean_tokens // problem.block_tokens(problem.caches[-1]))
    rows |= {f"requests of {mean_tokens} tokens": str(count)}
    states = count * (problem.caches[0].blocks or 1)
    rows["idle in paged"] = idle_text(problem, answer, "paged", count * need)
    return count, rows | {"idle in state": idle_text(problem, answer, "state", states)}
