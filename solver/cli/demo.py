"""kvplan demo: a real case that ships with the package, solved on the spot."""

from __future__ import annotations

import shlex
import sys
from importlib.resources import files

_NEXT = """
Try next:
  kvplan solve {path} --set ranks.gpu.quota=7GiB
  kvplan solve {path} --set ranks.gpu.quota=5GiB
  kvplan solve {path} --json
"""


def demo() -> int:
    """Solve a real case that ships with kvplan."""
    resource = files("kvplan.solver.data") / "demo.yaml"
    text = resource.read_text(encoding="utf-8")

    from kvplan.models import Problem
    from kvplan.solver import solve_confirmed
    from kvplan.solver.cli.solve import print_answer

    problem = Problem.parse(text)
    plan = solve_confirmed(problem)
    sys.stdout.write(f"{text}\n")
    print_answer(plan, problem, as_json=False)
    sys.stdout.write(_NEXT.format(path=shlex.quote(str(resource))))
    return 0
