"""What vLLM says where it does not start, and the largest settings that would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kvplan.models.engines.layers import Architecture, Attention, Compressed, Latent
from kvplan.models.engines.vllm.block_groups import Serving
from kvplan.models.engines.vllm.figures import concurrency, gib, printed_tokens
from kvplan.models.engines.vllm.pool_problem import blocks_of_request, longest_length, overridden
from kvplan.models.engines.vllm.spec import Spec
from kvplan.models.errors import InvalidProblem

if TYPE_CHECKING:
    from kvplan.models.engines.vllm.launch.server import Server

STATES = "Please lower max_num_seqs to at most"


def refused(server: Server) -> dict[str, str]:
    """What a server says where its problem has no plan: the first rank that fails speaks.

    (get_kv_cache_configs checks the workers in turn; then the graphs of a hybrid's requests are
    held against its blocks.)
    """
    layout, serving, workers = server.layout, server.serving, server.workers
    if server.override_blocks is not None and serving.version.override_replaces_memory:
        workers = overridden(layout, workers, server.override_blocks)
    needed = blocks_of_request(layout, serving, serving.length_tokens)
    for worker in workers:
        block_bytes = layout.check_bytes(worker.stage)
        null = block_bytes if serving.version.charges_null_block else 0
        room = worker.quota_bytes - null
        if room <= 0:
            return {"No available memory for the cache blocks": f"{gib(worker.quota_bytes)} GiB"}
        if server.auto_fit and not longest_length(layout, serving, [worker]):
            return {"Cannot auto-fit max_model_len": "not enough memory for a single token"}
        if not server.auto_fit and needed * block_bytes > room:
            return {
                "max seq len": str(serving.length_tokens),
                "GiB KV cache is needed": gib(needed * block_bytes),
                "available KV cache memory": f"{gib(room)} GiB",
                "the estimated maximum model length is": str(
                    longest_length(layout, serving, [worker])
                ),
                **_starts(server, worker.name),
            }
    return states_text(server.state_requests, server.block_count)


def refused_counts(server: Server) -> dict[str, str]:
    """What vLLM before 0.9 prints of the blocks that it counts before it refuses a length."""
    layout, serving, blocks = server.layout, server.serving, server.block_count
    length = serving.length_tokens
    counted = {"num_gpu_blocks": str(blocks)}
    if not layout.groups or not length:
        return counted
    ratio = concurrency(layout, serving, blocks, length)
    counted[f"Maximum concurrency for {length:,} tokens per request"] = f"{ratio:.2f}x"
    held = printed_tokens(layout, serving, blocks, length)
    return counted | {"the maximum number of tokens that can be stored in KV cache": str(held)}


def _starts(server: Server, rank: str) -> dict[str, str]:
    """With several ranks: who failed, and the length that every one of them can serve."""
    if len(server.workers) == 1:
        return {}
    longest = longest_length(server.layout, server.serving, server.workers)
    return {"rank": rank, "largest --max-model-len that starts": str(longest)}


def states_text(requests: int, blocks: int) -> dict[str, str]:
    """More requests than states (vllm/config/compilation.py, #38270)."""
    return {f"max_num_seqs ({requests}) exceeds available Mamba cache blocks": f"({blocks})"}


def largest_requests(most: int, blocks_with: Callable[[int], int]) -> int:
    """Find the largest n up to `most` with n <= blocks_with(n), which never rises; or 0."""
    least, most = 0, max(most, 0)
    while least < most:
        middle = (least + most + 1) // 2
        if middle <= blocks_with(middle):
            least = middle
        else:
            most = middle - 1
    return least


def check_specs(specs: list[Spec], serving: Serving) -> None:
    """Refuse layers that this launch's flags do not go with.

    Raises
    ------
    InvalidProblem : context parallelism with windows, windows of two sizes held in full, or a
        state larger than the page it must fit in.
    """
    slides = {spec.reach for spec in specs if spec.kind in ("window", "chunked")}
    if serving.context_shards > 1 and slides:
        expected, got = "1 with sliding windows (vLLM asserts it)", str(serving.context_shards)
        raise InvalidProblem.at("--decode-context-parallel-size", expected, got)
    attends = {spec.kind for spec in specs} - {"mamba", "window", "chunked"}
    if serving.unify_hybrid and attends and len(slides) > 1:
        raise InvalidProblem.at(
            "--disable-hybrid-kv-cache-manager",
            "windows of one size (held in full, all layers must have the same)",
            ", ".join(str(reach) for reach in sorted(slides, key=str)),
        )
    for spec in specs:
        if spec.kind == "mamba" and spec.padded_bytes and spec.state_bytes > spec.padded_bytes:
            expected = f"states within a page of {spec.padded_bytes} B (vLLM asserts it)"
            raise InvalidProblem.at("layers", expected, f"{spec.state_bytes} B")


def check_sharing(architecture: Architecture, settings: Mapping[str, Any]) -> None:
    """What ModelConfig.verify_with_parallel_config and ParallelConfig refuse.

    Raises
    ------
    InvalidProblem : context parallel ranks that the tensor parallel ones do not hold.
    """
    ranks = max(1, int(settings["tensor_parallel_size"]))
    flag, shards = "--decode-context-parallel-size", int(settings["decode_context_parallel_size"])
    if shards <= 1:
        return
    if ranks % shards:
        raise InvalidProblem.at(flag, f"a divisor of --tensor-parallel-size ({ranks})", str(shards))
    attends = [layer for layer in architecture.target if isinstance(layer, Attention)]
    if not attends or any(isinstance(x, Latent | Compressed) for x in architecture.target):
        return
    if any(layer.reach != "full" for layer in attends):
        return  # refused by name later
    heads = attends[0].kv_heads
    if ranks <= heads:
        expected = f"1, or --tensor-parallel-size above {heads} KV heads"
        raise InvalidProblem.at(flag, expected, str(shards))
    if shards > ranks // heads:
        raise InvalidProblem.at(
            flag, f"at most {ranks // heads} with {heads} KV heads", str(shards)
        )
    group = architecture.query_heads // heads
    if group and group % shards:
        expected = f"a divisor of {group} query heads a KV head"
        raise InvalidProblem.at(flag, expected, str(shards))
