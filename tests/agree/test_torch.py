"""Eight real gloo ranks on the loopback: one launch, every fault in turn."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvplan.models.ranks import Rank
from support.agreeing import BLOCK_BYTES, STATE_BYTES, entry

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="no gloo ranks without torch")
TESTS = Path(__file__).parent.parent
HASTY = 2.5
LONGEST = 100  # seconds for all scenarios; gloo would wait for half an hour
ALL = range(8)
KILLED = (3, 6)


class Launch(NamedTuple):
    """What the ranks wrote down, how they ended, and what each last said."""

    told: list[dict[str, Any]]
    codes: list[int]
    last_words: list[str]


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """One launch for all tests, and for all workers that run some of them."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "gloo_ranks"
    try:
        folder.mkdir()
    except FileExistsError:
        until_done(folder)
    else:
        launch_ranks(folder)
    told = [json.loads((folder / f"{rank}.json").read_text()) for rank in ALL]
    words = [(folder / f"{rank}.err").read_text() for rank in ALL]
    return Launch(told, json.loads((folder / "codes.json").read_text()), words)


def launch_ranks(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    local = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    command = [sys.executable, TESTS / "support" / "torch_ranks.py", str(port), str(folder)]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **local, "PYTHONPATH": path}
    ranks = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        ranks.wait(timeout=LONGEST)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(ranks.pid, signal.SIGKILL)
        (folder / "done").touch()


def until_done(folder: Path) -> None:
    deadline = time.monotonic() + LONGEST + 10
    while not (folder / "done").exists():
        assert time.monotonic() < deadline, "the ranks hang"
        time.sleep(0.1)


def same(launch: Launch, scenario: str, ranks: Any = ALL) -> tuple[str, str]:
    """Kind and text of an answer that all these ranks gave."""
    answers = {tuple(launch.told[rank][scenario][:2]) for rank in ranks}
    assert len(answers) == 1, answers
    return answers.pop()


def smallest_count() -> int:
    """By hand: what the shortest rank leaves for blocks."""
    quotas = [Rank.model_validate(entry(rank)).quota_bytes for rank in ALL]
    assert len(set(quotas)) == 7  # two of the eight ranks measured the same
    return (min(quotas) - STATE_BYTES) // BLOCK_BYTES


def test_eight_ranks_get_one_plan_of_the_shortest_rank(launch: Launch) -> None:
    kind, text = same(launch, "world")
    assert kind == "Plan"
    assert text.startswith(f"{{'paged': {smallest_count()}}} ")


def test_groups_compose_to_the_grid_and_a_group_of_one_adds_nobody(launch: Launch) -> None:
    assert same(launch, "grid") == same(launch, "world")


def test_pipeline_stages_share_a_count_in_one_model(launch: Launch) -> None:
    kind, text = same(launch, "stages")
    assert kind == "Plan"
    assert text.startswith(f"{{'paged': {smallest_count()}}} ")  # ranks 1 and 7 are the shortest


def test_a_communicator_of_one_method_is_enough(launch: Launch) -> None:
    assert same(launch, "plain") == same(launch, "world")


def test_payloads_of_any_length_come_in_the_order_of_the_ranks(launch: Launch) -> None:
    for told in launch.told:
        assert told["bytes"] == [[rank, 1000 + 125_000 * rank] for rank in ALL]


def test_a_measurement_that_raises_is_told_to_all(launch: Launch) -> None:
    expected = ("AgreementFailed", "rank 3: RuntimeError: device lost")
    assert same(launch, "raises") == expected


def test_a_rank_that_is_short_by_a_byte_is_named_by_all(launch: Launch) -> None:
    kind, text = same(launch, "short")
    assert kind == "Infeasible"
    assert text.splitlines()[0].startswith("rank r5 is short by 1 B in ")
    assert all("rank r5 " in line for line in text.splitlines())


def test_another_layout_is_named_by_all(launch: Launch) -> None:
    kind, text = same(launch, "layout")
    assert kind == "AgreementFailed"
    assert text == "rank 6 (r6) has another problem: tokens_per_block unlike the others"


def test_another_version_is_named_by_all(launch: Launch) -> None:
    kind, text = same(launch, "version")
    assert kind == "AgreementFailed"
    assert text.startswith("rank 7 (r7) has OR-Tools 0.0.1 where the others have ")
    assert "; kvplan 0.0.1 where the others have 0." in text


def test_an_error_of_a_megabyte_is_cut_alike(launch: Launch) -> None:
    kind, text = same(launch, "long")
    assert kind == "AgreementFailed"
    assert text.startswith("rank 2: RuntimeError: xxx")
    assert len(text) < 2100


def test_a_slow_rank_is_named_in_time_by_all_and_by_itself(launch: Launch) -> None:
    assert same(launch, "slow") == ("AgreementFailed", f"rank 4 did not answer within {HASTY} s")
    for rank in ALL:
        if rank != 4:
            assert HASTY <= launch.told[rank]["slow"][2] < 3 * HASTY + 2


def test_the_ranks_agree_again_afterwards(launch: Launch) -> None:
    assert same(launch, "again") == same(launch, "world")


def test_a_rank_killed_during_the_gather_is_named_by_its_group(launch: Launch) -> None:
    expected = ("AgreementFailed", f"rank 6 did not answer within {HASTY} s")
    assert same(launch, "killed during", (4, 5, 7)) == expected
    for rank in (4, 5, 7):
        assert launch.told[rank]["killed during"][2] < 3 * HASTY + 2


def test_a_collective_that_never_ends_is_left_behind(launch: Launch) -> None:
    kind, text = same(launch, "plain, one never calls", (0, 2, 3))
    assert kind == "AgreementFailed"
    assert text.startswith(f"a rank did not answer within {HASTY} s")


def test_ranks_killed_before_are_named_by_every_survivor_which_then_ends(launch: Launch) -> None:
    expected = f"AgreementFailed: ranks 3, 6 did not answer within {HASTY} s"
    for rank in ALL:
        if rank in KILLED:
            assert launch.codes[rank] == -signal.SIGKILL
        else:
            assert launch.codes[rank] == 1, launch.last_words[rank]
            assert expected in launch.last_words[rank]
