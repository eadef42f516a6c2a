"""vLLM's specs of hybrids as plain data, and the best layout by brute force from the bare rules."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

STEP, MOST_TOKENS = 16, 8192


class Layers(NamedTuple):
    """Layers of one kind.

    Attributes
    ----------
    row : bytes of a token, or of a state.
    blocks : of a state.
    """

    count: int
    kind: str
    row: int
    window: int = 0
    blocks: int = 0


class Hybrid(NamedTuple):
    """Specs layer by layer, what is asked of them, and the same for the brute force."""

    data: dict[str, Any]
    layers: tuple[Layers, ...]
    length: int
    flight: int


def attention(kind: str, heads: int, dim: int, dtype: str, block: int, **more: int) -> Any:
    """One spec of keys and values."""
    return {
        "kind": kind,
        "block_size": block,
        "num_kv_heads": heads,
        "head_size": dim,
        "dtype": dtype,
        **more,
    }


def states_beside(heads: int, dim: int, pages: int, spare: int, speculative: int) -> Any:
    """A state in a page of `pages` x 16 tokens of bf16 attention, some bytes of it spare."""
    block = STEP * pages
    page = block * heads * dim * 4
    return {
        "kind": "mamba",
        "block_size": block,
        "shapes": [[(page - spare) // 4]],
        "dtypes": ["float32"],
        "page_size_padded": page,
        "mamba_cache_mode": "align",
        "num_speculative_blocks": speculative,
    }


def served(
    specs: dict[str, Any], counts: dict[str, int], length: int, step: int, *, asynchronous: bool
) -> Hybrid:
    """A server of some layers of each spec, and its buckets."""
    rows = []
    for name, count in counts.items():
        spec = specs[name]
        if spec["kind"] == "mamba":
            blocks = 2 + spec["num_speculative_blocks"]
            rows.append(Layers(count, "state", 4 * spec["shapes"][0][0], blocks=blocks))
        else:
            size = 2 if spec["dtype"] == "bfloat16" else 1
            row = 2 * spec["num_kv_heads"] * spec["head_size"] * size
            rows.append(Layers(count, spec["kind"], row, spec.get("window", 0)))
    data = {
        "specs": specs,
        "layers": [n for n, count in counts.items() for _ in range(count)],
        "max_model_len": length,
        "max_num_batched_tokens": step,
        "available": [2**36],
        "async_scheduling": asynchronous,
    }
    return Hybrid(data, tuple(rows), length, step * (1 + asynchronous))


def hybrid(seed: int) -> Hybrid:
    """Windows beside full attention, or states with or without a windowed draft."""
    draw = Random(seed)
    length = draw.choice((4096, 8192, 65_536, 100_001, 131_072, 200_000, 262_144, 1_048_576))
    step, later = draw.choice((512, 2048, 8192, 32_768)), draw.random() < 0.6
    if seed % 3 == 0:
        heads, dim = draw.choice(((1, 256), (2, 128), (8, 64), (4, 256), (1, 96)))
        other = (heads, dim) if draw.random() < 0.6 else draw.choice(((1, 256), (4, 192), (8, 128)))
        full = draw.randint(1, 20)
        window = draw.choice((128, 512, 1024, 4096))
        specs = {
            "swa": attention("window", heads, dim, "bfloat16", STEP, window=window),
            "full": attention("full", *other, "bfloat16", STEP),
        }
        counts = {"swa": draw.randint(full, 56), "full": full}
        return served(specs, counts, length, step, asynchronous=later)
    heads, dim = draw.choice(((1, 256), (2, 256), (4, 128), (8, 128), (1, 128)))
    pages, full = draw.randint(20, 140), draw.randint(4, 20)
    spare = 4 * draw.randint(0, heads * dim * 8)
    state = states_beside(heads, dim, pages, spare, draw.choice((0, 0, 1, 3, 5)))
    specs = {
        "state": state,
        "full": attention("full", heads, dim, "bfloat16", state["block_size"]),
    }
    counts = {"state": full * draw.choice((1, 3, 3, 7)), "full": full}
    if seed % 3 == 2:
        draft = draw.choice(((8, 128), (4, 128), (2, 128)))
        window = draw.choice((1024, 2048, 4096))
        specs["draft"] = attention("window", *draft, "bfloat16", STEP, window=window)
        counts["draft"] = draw.choice((1, 5, 5, 8))
    return served(specs, counts, length, step, asynchronous=later)


def needed(layers: Layers, tokens: int, length: int, flight: int) -> int:
    """Blocks of one request in a group, by vLLM's own rules (max_memory_usage_bytes)."""
    if layers.kind == "state":
        return layers.blocks
    if layers.kind == "full":
        return -(-length // tokens)
    return -(-min(layers.window - 1 + flight, length) // tokens) + 1


def best_uniform(asked: Hybrid) -> int:
    """Bytes of the best page and width: every page that a kind fills, with every width."""
    sizes = range(STEP, MOST_TOKENS + 1, STEP)
    pages = {each.row for each in asked.layers if each.kind == "state"}
    pages |= {t * each.row for each in asked.layers if each.kind != "state" for t in sizes}
    best = 0
    for page in pages:
        blocks = []
        for each in asked.layers:
            tokens = min(page // each.row // STEP * STEP, MOST_TOKENS)
            if each.row > page or (each.kind != "state" and not tokens):
                break
            blocks.append(needed(each, tokens, asked.length, asked.flight))
        if len(blocks) < len(asked.layers):
            continue
        for width in range(1, max(each.count for each in asked.layers) + 1):
            groups = [-(-each.count // width) for each in asked.layers]
            total = sum(n * b for n, b in zip(groups, blocks, strict=True))
            taken = page * width * total
            best = min(best or taken, taken)
    return best


def best_packed(asked: Hybrid) -> int:
    """Bytes of the best block: each kind with its own groups and tokens, side by side in it."""
    options = []
    for each in asked.layers:
        sizes = (1,) if each.kind == "state" else range(STEP, MOST_TOKENS + 1, STEP)
        rows = sorted(
            (-(-each.count // groups) * tokens * each.row,
             groups * needed(each, tokens, asked.length, asked.flight))
            for groups in range(1, each.count + 1)
            for tokens in sizes
        )  # fmt: skip
        fewest, kept = rows[0][1] + 1, []
        for size, blocks in rows:
            if blocks < fewest:
                kept.append((size, blocks))
                fewest = blocks
        options.append(kept)
    best, at = 0, [-1] * len(options)
    for block in sorted({size for kept in options for size, _ in kept}):
        for kind, kept in enumerate(options):
            while at[kind] + 1 < len(kept) and kept[at[kind] + 1][0] <= block:
                at[kind] += 1
        if min(at) >= 0:
            taken = block * sum(kept[i][1] for kept, i in zip(options, at, strict=True))
            best = min(best or taken, taken)
    return best
