"""Models, engines, cards and settings side by side: `matrix(models, vary)`.

pandas is imported when a table is first built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

__all__ = ["matrix"]


def matrix(
    models: Sequence[str | Path],
    vary: Mapping[str, str | Sequence[object]],
    *,
    engine: str = "vllm",
    arguments: Sequence[str] = (),
    weights_gib: Mapping[str, object] | str | float | None = None,
    tokens: int | None = None,
    users: int | None = None,
    best: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pandas.DataFrame:
    """Start every model with every combination of settings, on paper.

    Parameters
    ----------
    models : config.json files, model folders or GGUF files.
    vary : the values of each setting: an engine's flag by its name without dashes
        ("kv-cache-dtype"; for a switch "on" and "off"), "engine", "gpu" (a card of the table),
        "variant" (one that `kvplan model` lists, or "none"), or a field of the problem
        ("ranks.*.memory.utilization"). Values as "A,B,C" or a sequence.
    engine : whose rules, where `vary` does not say.
    arguments : flags that every combination has, as the engine's command line spells them.
    weights_gib : GiB of a whole model, or by the name of its file; every GPU of a replica holds an
        even share. A folder or a GGUF file with weights says it by itself.
    tokens : length of a request; None: the longest that the engine was asked to serve.
    users : for so many requests at once, the replicas that each combination takes; those that hold
        no request are left out, the least memory comes first.
    best : sort by this column, the largest first: "tokens per gpu", "requests", "tokens".

    Returns
    -------
    One row for each combination:

    * the settings that vary, `model` first;
    * `status`: "starts"; "refused", the engine would find too little memory; "rejected", it (or
      kvplan) does not take the model or the settings; `reason` says why;
    * `gpus` of one replica and `machine_bytes`, their memory together (none without a card); with
      `users`, of all `replicas`;
    * `request_tokens`, the length; `requests`, how many of that length the blocks hold at once, at
      most as many as a given --max-num-seqs (or its like) admits; `tokens`, the same in tokens,
      with the part of a request that is left; `tokens_per_gpu`;
    * `kv_bytes` of the fullest rank;
    * `estimated`: the terms of the budget that nobody measured.

    Raises
    ------
    InvalidProblem : a setting that no combination takes, a model that cannot be read, no row that
        is not rejected.
    """
    from kvplan.solver.matrix.ranking import ranked
    from kvplan.solver.matrix.settings_grid import read_combinations
    from kvplan.solver.matrix.started import rows_of

    combinations = read_combinations(models, vary, engine, arguments, weights_gib)
    return ranked(rows_of(combinations, tokens, progress), best=best, users=users)
