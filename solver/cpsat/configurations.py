"""How CP-SAT searches: a few configurations, each with a limit of work and a wall guard."""

from __future__ import annotations

from enum import Enum

from ortools.sat.python import cp_model

GUARD_S, GUARD_PER_WORK_S = 0.5, 20  # wall seconds of a solve, and more a unit of its work


class Configuration(Enum):
    """In the order in which they take turns.

    Plain (level 2 without presolve) proves most models in a millisecond, presolve those whose
    bounds creep, LP_SEARCH the knapsacks.
    """

    PLAIN = "plain"
    PRESOLVE = "presolve"
    LP_SEARCH = "lp search"


def configured(slice_time: float, wall_s: float, configuration: Configuration) -> cp_model.CpSolver:
    """A solver with one worker and a fixed seed.

    Parameters
    ----------
    slice_time : deterministic time, about a quarter of the wall seconds: the same on every machine.
    wall_s : seconds that are left; one solve was seen to take minutes for a slice of 2.
    """
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.random_seed = 0
    parameters.cp_model_presolve = configuration is Configuration.PRESOLVE
    parameters.linearization_level = 2
    # The newer propagation creeps through huge domains in one call, heeding no limit of time or
    # work: figures near 10^10 took all memory (OR-Tools 9.15).
    parameters.new_linear_propagation = False
    parameters.absolute_gap_limit = 0  # compared as doubles: beyond 2^53 a gap would look closed
    parameters.catch_sigint_signal = False  # Ctrl-C is the caller's
    parameters.max_deterministic_time = slice_time
    parameters.max_time_in_seconds = min(wall_s, GUARD_S + GUARD_PER_WORK_S * slice_time)
    if configuration is Configuration.LP_SEARCH:
        parameters.search_branching = cp_model.LP_SEARCH
    return solver
