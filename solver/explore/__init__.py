"""Many scenarios of one problem as a table: `explore(problem, vary)`.

pandas and NumPy are imported when a table is first built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.models import InvalidProblem, Problem
from kvplan.models.problem import as_problem
from kvplan.solver.explore.axes import Values
from kvplan.solver.explore.grid import build_grid

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pandas

    from kvplan.solver.explore.grid import Grid
    from kvplan.solver.explore.sharing.kept_parts import KeptParts

__all__ = ["explore"]


def explore(
    problem: Problem,
    vary: Mapping[str, Values],
    *,
    progress: Callable[[int, int], None] | None = None,
    executor: Executor | None = None,
    keep_beside: str | Path | None = None,
) -> pandas.DataFrame:
    """Solve a problem for every combination of the varied fields.

    Rows that differ in what `solver.sweep.by_name` may vary (quotas, capacities of requests without
    a given history, counts, the requested chunk, the resume utilization) are solved together, all
    others one by one; the figures are the same.

    Parameters
    ----------
    problem : what stays the same.
    vary : by field, the values that it takes. A field is a path as in `--set`, such as
        "ranks.*.quota" or "batches.one.requests.long.capacity". Values are "A:B:STEP" (B included
        where a step meets it), "A,B,C", or an iterable of numbers and of texts with a unit.
        Two names vary whole problems, slower than any field: "variant" (names of its variants, or
        "none"), and "goals" (orders such as "prefill > experts"; goals that are left out follow).
    progress : called now and then with the rows done and the total.
    executor : solves parts of the grid elsewhere: a process pool, or
        `kvplan.solver.explore.sharing.on_ray.RayExecutor`. The table is the same.
    keep_beside : the file that the table will go to. Finished parts of a large sweep are kept in a
        hidden folder beside it until the call returns; the same call goes on from there after it
        was killed.

    Returns
    -------
    One row for each combination, the last field varying fastest; infeasible rows are kept.
    The varied fields (bytes where the values have a unit), then `status` (optimal, feasible,
    infeasible), what a plan decides, each where it applies: `blocks:<pool>`
    (allocated), `capacity:<request>` (tokens), `count:<request>`, `prefill` (tokens), `experts`
    (slots a layer), `experts_in_prefill` (slots that stay), `choice:<name>`, `copies:<batch>`;
    then bytes: `slack` (left on the tightest rank) or, in an infeasible row, `shortfall` (lacking
    with everything elastic at its floor; none where a pool's max_blocks is too low), each with
    `tightest_rank` and `tightest_phase`.

    Raises
    ------
    InvalidProblem : an invalid path or range, a value that the field rejects, or too many
        rows. The corners of the grid are validated before solving.
    """
    if not isinstance(vary, Mapping):
        raise InvalidProblem.at("vary", "a mapping of paths to values", type(vary).__name__)
    from kvplan.solver.explore.outer import OUTER, outer_problems

    outer = list(outer_problems(as_problem(problem), vary))
    fields = {name: values for name, values in vary.items() if name not in OUTER}
    grids = [
        build_grid(each.problem, fields, may_stand_still=len(fields) < len(vary)) for each in outer
    ]

    from kvplan.solver.explore.result_table import below_one_another, table_of
    from kvplan.solver.explore.sharing.shared_out import solve_parts

    tables, done = [], 0
    for grid in grids:
        kept = None if keep_beside is None else _kept(keep_beside, grid)
        told = progress and partial(_tell, progress, done, sum(map(len, grids)))
        tables.append(table_of(grid, solve_parts(grid, told, executor, kept)))
        done += len(grid)
    for grid in grids if keep_beside is not None else ():
        _kept(keep_beside, grid).remove()
    return below_one_another([each.labels for each in outer], tables)


def _tell(progress: Callable[[int, int], None], before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)


def _kept(target: str | Path | None, grid: Grid) -> KeptParts:
    from kvplan.solver.explore.sharing.kept_parts import KeptParts

    assert target is not None
    return KeptParts(Path(target), grid)
