"""Four real MPI ranks: one launch, the faults in turn."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kvplan.models.ranks import Rank
from support.agreeing import BLOCK_BYTES, STATE_BYTES, entry

TESTS = Path(__file__).parent.parent
MPIRUN = shutil.which("mpirun")
HASTY = 2.5
ALL = range(4)

pytestmark = [
    pytest.mark.skipif(find_spec("mpi4py") is None, reason="mpi4py is not installed"),
    pytest.mark.skipif(MPIRUN is None, reason="no mpirun: install openmpi or mpich"),
]

Told = list[dict[str, Any]]


def command() -> list[str]:
    """Start four ranks, more than there may be cores, as root too; each MPI in its own words."""
    assert MPIRUN is not None
    made_by = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=True)
    open_mpi = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in made_by.stdout else []
    return [MPIRUN, *open_mpi, "-n", "4", sys.executable, str(TESTS / "support" / "mpi_ranks.py")]


def test_four_ranks_agree_and_fail_together(tmp_path: Path) -> None:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    }
    done = subprocess.run(
        [*command(), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in ALL]
    agreements(told)
    faults(told)


def same(told: Told, scenario: str) -> tuple[str, str]:
    """Kind and text of an answer that all ranks gave."""
    answers = {tuple(rank[scenario][:2]) for rank in told}
    assert len(answers) == 1, answers
    return answers.pop()


def agreements(told: Told) -> None:
    """One plan, whichever groups lead to the four ranks; payloads of any length."""
    quotas = [Rank.model_validate(entry(rank)).quota_bytes for rank in ALL]
    smallest = (min(quotas) - STATE_BYTES) // BLOCK_BYTES
    kind, text = same(told, "world")
    assert kind == "Plan"
    assert text.startswith(f"{{'paged': {smallest}}} ")
    assert same(told, "grid") == same(told, "again") == (kind, text)
    for rank in told:
        assert rank["bytes"] == [[number, 1 + 300_000 * number] for number in ALL]


def faults(told: Told) -> None:
    """The same text on every rank, in time."""
    kind, text = same(told, "raises")
    assert kind == "AgreementFailed"
    assert text.startswith("rank 3: RuntimeError: device lostxxx")
    kind, text = same(told, "layout")
    assert kind == "AgreementFailed"
    assert text == "rank 1 (r1) has another problem: tokens_per_block unlike the others"
    kind, text = same(told, "slow")
    assert (kind, text) == ("AgreementFailed", f"rank 2 did not answer within {HASTY} s")
    assert all(rank["slow"][2] < 3 * HASTY + 2 for rank in told)
