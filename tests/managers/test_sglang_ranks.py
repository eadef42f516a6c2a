"""SGLang's real configurator in two processes, which agree over its world group (gloo)."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from support.engines import once, run_script

GIB = 1 << 30
TOKEN_BYTES = 36_864  # of gpt-oss-120b in either pool
QUOTAS = (16 * GIB, 16 * GIB - (1 << 28))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ran = once(
        tmp_path_factory,
        "sglang_ranks",
        lambda: run_script(
            "sglang-0.5.23",
            "sglang_ranks.py",
            str(port),
            *map(str, QUOTAS),
            KVPLAN_STRICT="1",
            GLOO_SOCKET_IFNAME="lo",
            OMP_NUM_THREADS="1",
        ),
    )
    found: list[dict[str, Any]] = ran.answer
    return found


def test_sglangs_own_splits_differ(ranks: list[dict[str, Any]]) -> None:
    assert [told["group"] for told in ranks] == ["GroupCoordinator"] * 2
    assert [told["rank"] for told in ranks] == [0, 1]
    assert ranks[0]["off"] == [258_907, 207_125]
    assert ranks[1]["off"] == [254_862, 203_889]


def test_both_ranks_take_the_split_of_the_one_with_least(ranks: list[dict[str, Any]]) -> None:
    full, window = ranks[0]["apply"]
    assert ranks[1]["apply"] == [full, window]
    taken = (full + window) * TOKEN_BYTES
    assert QUOTAS[1] - 2 * TOKEN_BYTES < taken <= QUOTAS[1]
    assert full > ranks[0]["off"][0]
