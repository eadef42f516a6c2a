"""What one engine's flag is called by another: for who changes --engine and keeps the flags."""

from __future__ import annotations

from collections.abc import Collection

SAME = (
    ("--max-model-len", "--context-length", "--max-seq-len", "--ctx-size", "-c"),
    (
        "--gpu-memory-utilization",
        "--mem-fraction-static",
        "--free-gpu-memory-fraction",
        "--kv-cache-free-gpu-memory-fraction",
    ),
    ("--max-num-seqs", "--max-running-requests", "--max-batch-size", "--parallel", "-np"),
    ("--max-num-batched-tokens", "--chunked-prefill-size", "--max-num-tokens", "--ubatch-size"),
    ("--block-size", "--page-size", "--tokens-per-block"),
    ("--kv-cache-dtype", "--cache-type-k", "-ctk"),
    ("--tensor-parallel-size", "--tp-size", "--tp", "-tp"),
    ("--pipeline-parallel-size", "--pp-size", "--pp", "-pp"),
    ("--enforce-eager", "--disable-cuda-graph"),
)


def same_elsewhere(name: str, names: Collection[str]) -> str | None:
    """The flag among `names` that says what another engine's flag says; None where none does."""
    for group in SAME:
        if name in group:
            return next((other for other in group if other in names), None)
    return None
