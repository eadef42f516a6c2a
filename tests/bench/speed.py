"""Speed of `auto` and `cp-sat`: medians in one run, JSON on standard output.

python tests/bench/speed.py [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from ortools.sat.python import cp_model

from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer
from kvplan.models import Problem
from kvplan.solver import plan
from kvplan.solver.answer.assembled_plan import assemble
from kvplan.solver.answer.credit import Credit
from kvplan.solver.cpsat.fill import filled
from kvplan.solver.cpsat.program.goal_forms import goal_values
from kvplan.solver.cpsat.program.program import build_program
from kvplan.solver.formulate.formulation import formulate

sys.path.insert(0, str(Path(__file__).parent))
from instances import (
    at_fractions,
    constrained,
    nine_caches,
    shipped,
    shipped_constrained,
    shipped_weighted,
    weighted,
)
from timing import interleaved, spread

LIMIT_S = 3.0


def open_defaults(problem: Problem) -> bool:
    """The same model without a hint, with CP-SAT's own parameters; whether proved.

    Built, solved and written out like `plan` does it, but without the search.
    """
    formulation = formulate(problem)
    search = Search(formulation.instance)
    instance = formulation.instance
    program = build_program(instance)
    model = program.model
    for form, _ in program.objectives:
        if form.terms:
            model.cp.maximize(model.expr(form))
            solver = cp_model.CpSolver()
            solver.parameters.max_time_in_seconds = LIMIT_S
            if solver.solve(model.cp) != cp_model.OPTIMAL:
                return False
            model.hints = [solver.value(variable) for variable in model.variables]
            model.bound(form, model.value(form), model.value(form))
    raws = program.raw_blocks()
    point = filled(instance, program.point(), raws)
    values = goal_values(instance, point, raws)
    answer = Answer(point, values, values, exact=True)
    assemble(formulation, search, answer, Credit("cp-sat", "cp-sat"))
    return True


def each(problems: dict[str, Problem], rounds: int, solver: Any = "auto") -> dict[str, Any]:
    """Median of every problem and how they end."""
    jobs = {name: partial(plan, problem, solver=solver) for name, problem in problems.items()}
    times = interleaved(jobs, rounds)
    ends = {name: plan(problem, solver=solver).status for name, problem in problems.items()}
    return {
        "each_ms": {name: round(value, 3) for name, value in times.items()},
        "unproved": [name for name, status in ends.items() if status != "optimal"],
        **spread(list(times.values())),
    }


def against_open(problems: dict[str, Problem], rounds: int) -> dict[str, Any]:
    """cp-sat hinted beside the plain model, in turns."""
    hinted, opened, unproved = [], [], []
    for name, problem in problems.items():
        if not open_defaults(problem):
            unproved.append(name)
        times = interleaved(
            {
                "hinted": partial(plan, problem, solver="cp-sat"),
                "open": partial(open_defaults, problem),
            },
            rounds,
        )
        hinted.append(times["hinted"])
        opened.append(times["open"])
    return {
        "hinted": spread(hinted),
        "open_defaults": spread(opened),
        "open_unproved": unproved,
        "median_ratio": round(median(o / b for o, b in zip(opened, hinted, strict=True)), 1),
    }


def import_ms(statement: str, rounds: int) -> float:
    """Median milliseconds of an import in fresh interpreters, their own start apart."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        for _ in range(rounds)
    ]
    return round(median(runs) * 1e3, 1)


def main() -> None:
    """Run everything and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    fractions = at_fractions()
    report = {
        "import_ms": {
            "from kvplan.solver import plan": import_ms("from kvplan.solver import plan", 9),
            "import kvplan.solver": import_ms("import kvplan.solver", 9),
        },
        "auto_shipped": each(shipped(), rounds),
        "auto_1024_distinct_requests": each({"nine caches": nine_caches(1024, "160GB")}, rounds),
        "auto_shipped_constraints": each(shipped_constrained(), rounds),
        "auto_shipped_weighted": each(shipped_weighted(), rounds),
        "auto_constraints": each(constrained(), rounds),
        "auto_weighted": each(weighted(), rounds),
        "cpsat_shipped_at_fractions": each(fractions, max(3, rounds // 3), "cp-sat"),
        "cpsat_against_open_defaults": against_open(fractions, 3),
    }
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
