"""Several models on one card as comments above their problem: who fits, how long, what to paste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.models.engines.estimates import kept_estimate
from kvplan.models.engines.shared.joint_problem import card_share
from kvplan.models.engines.shared.part import Part, asked_tokens
from kvplan.models.units import human_bytes
from kvplan.solver.advise.several_models import Together


def together_text(parts: Sequence[Part], answer: Together) -> str:
    """Write the answer, a row for each model, and the flags of each start in its turn."""
    rows = [
        _verdict(parts, answer),
        *_needs(parts, answer),
        *_contexts(parts, answer),
        *_starts(parts, answer),
    ]
    return "".join(f"# {row}".rstrip() + "\n" for row in rows)


def _verdict(parts: Sequence[Part], answer: Together) -> str:
    """Fit or not, and who is short by how much."""
    if answer.plan is not None:
        return "all models fit on the card as asked"
    own = "; ".join(
        f"{one.label} alone is {human_bytes(one.alone_short_bytes)} short"
        for one in answer.needed
        if one.alone_short_bytes
    )
    card = f"{human_bytes(answer.short_bytes)} short" if answer.short_bytes else ""
    shares = [part.memory.utilization or 0 for part in parts if part.has_own_share]
    sums = f"their shares add up to {float(sum(shares)):g}" if sum(shares) > 1 else ""
    said = "; ".join(text for text in (sums, card, own) if text)
    return f"the models do not fit on the card as asked: {said}"


def _needs(parts: Sequence[Part], answer: Together) -> Iterator[str]:
    memory = parts[0].memory
    head = ("model", "asked", "caches", "beside", "needs", "finds", "short")
    rows: list[tuple[str, ...]] = [head]
    for part, needed in zip(parts, answer.needed, strict=True):
        figures = (needed.cache_bytes, needed.other_bytes, needed.bytes, needed.found_bytes)
        short = human_bytes(needed.short_bytes) if needed.short_bytes else "-"
        rows.append((part.label, f"{asked_tokens(part):,}", *map(human_bytes, figures), short))
    total = sum(one.bytes for one in answer.needed)
    rows.append(("all", "", "", "", human_bytes(total), "", ""))
    yield from _aligned(rows)
    share = card_share(parts)
    total_bytes = memory.total or 0
    used = f" x {float(share):g} = {human_bytes(int(total_bytes * share // 1))}"
    yield f"  card: {human_bytes(total_bytes)}{used if share < 1 else ''}"
    for kept in kept_estimate(parts[0].settings, share):
        yield f"  of it {kept.term}: {human_bytes(kept.bytes)} (estimated, {kept.spread})"


def _contexts(parts: Sequence[Part], answer: Together) -> Iterator[str]:
    own = [part for part in parts if not part.target]
    if not answer.contexts:
        yield "no context is short enough"
        return
    yield "tokens of one request, the largest that fit"
    names = list(answer.contexts)
    rows: list[tuple[str, ...]] = [("model", "asked", *names)]
    for part in own:
        lengths = [f"{answer.contexts[name][part.label]:,}" for name in names]
        rows.append((part.label, f"{asked_tokens(part):,}", *lengths))
    yield from _aligned(rows)


def _starts(parts: Sequence[Part], answer: Together) -> Iterator[str]:
    if not answer.starts:
        return
    yield "start in this order" if answer.plan else "start in this order, with shorter contexts"
    engines = {part.label: part.engine for part in parts}
    for start in answer.starts:
        flags = " ".join(f"{flag} {value}" for flag, value in start.flags.items())
        free, taken = human_bytes(start.free_bytes), human_bytes(start.taken_bytes)
        yield f"  {start.label} ({engines[start.label]}): {flags}"
        yield f"    finds {free} free, takes {taken}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        first, *others = (
            text.ljust(width) if at == 0 else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  " + "  ".join([first, *others])
