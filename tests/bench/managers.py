"""What kvplan adds to a start of vLLM with 60 layers: CPU milliseconds, JSON on standard output.

python tests/bench/managers.py [--rounds N]

vLLM's own planning is stood in for by one that sizes by the same rule; imports come first. The
bars: 20 ms in check, 500 ms in apply. Exit code 1 where the fastest round misses one. Check with a
workload file searches for the split that it suggests, as apply does; it has no bar.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from timing import spread

from kvplan.solver.managers.vllm import functions
from support.vllm_planning import AVAILABLE, VERSION, Engine, config, specs

MOST_MS = {"check": 20.0, "apply": 500.0}
WINDOWS, FULL = 50, 10


def starts() -> Callable[[], Any]:
    """One start of sixty layers; what vLLM itself does is computed before, where it stays."""
    engine, held = Engine(), specs(windows=WINDOWS, full=FULL)
    kept = engine.get_kv_cache_configs(config(), [held], [AVAILABLE])

    def own(*given: Any) -> Any:
        return engine.get_kv_cache_configs(*given) if os.environ["KVPLAN"] == "apply" else kept

    wrapped = functions.wrap(own, engine)
    return lambda: wrapped(config(), [held], [AVAILABLE])


def cpu_ms(job: Callable[[], Any], rounds: int) -> list[float]:
    """CPU milliseconds of every round, after one to warm up."""
    job()
    found = []
    for _ in range(rounds):
        began = time.process_time()
        job()
        found.append((time.process_time() - began) * 1e3)
    return found


def measured(rounds: int, workload: str) -> dict[str, dict[str, float]]:
    """Figures by mode."""
    found = {}
    for name, mode, file in (
        ("check", "check", ""),
        ("check with a workload", "check", workload),
        ("apply", "apply", workload),
    ):
        os.environ |= {"KVPLAN": mode, "KVPLAN_WORKLOAD": file, "KVPLAN_STRICT": "1"}
        times = cpu_ms(starts(), rounds)
        found[name] = {**spread(times), "min_ms": round(min(times), 3)}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    sys.modules["vllm"] = SimpleNamespace(__version__=VERSION)  # type: ignore[assignment]
    with NamedTemporaryFile("w", suffix=".yaml") as workload:
        workload.write("requests: [{capacity: 3000}]\n")
        workload.flush()
        found = measured(rounds, workload.name)
    print(json.dumps(found, indent=2))
    return int(any(found[mode]["min_ms"] > bar for mode, bar in MOST_MS.items()))


if __name__ == "__main__":
    sys.exit(main())
