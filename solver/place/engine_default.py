"""What the engine itself would choose, by its own rules, at the values of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from kvplan.models.engines.llamacpp.fit import FitResult, Part, fit
from kvplan.models.engines.llamacpp.split import Device, SlotBytes, least_cpu_moe
from kvplan.models.engines.partitions import before_last, last_ones
from kvplan.models.place import STAGED
from kvplan.models.units import human_bytes
from kvplan.solver.place.search.placement_search import Placed, PlaceSearch
from kvplan.solver.place.search.spread import Spread, Spreading, measure, short_by
from kvplan.solver.place.slot_program import Program

KEPT: dict[Part, int] = {"MOE": 0, "ATTN": 0, "UP": 1, "GATE": 2}


def engine_default(program: Program, found: Placed) -> dict[str, str]:
    """Rows by label; none of an engine without a rule of its own here."""
    place = program.place
    if place.engine in STAGED:
        return dict(_partition(program))
    mixture = place.unit == "tensor" and not place.mirror and place.experts != "none"
    if place.engine in ("llama.cpp", "ollama") and place.read and mixture:
        return dict(_llamacpp(program, found))
    return {}


def _partition(program: Program) -> Iterator[tuple[str, str]]:
    """Layers a stage by the engine's remainder rule, and what they hold."""
    rule = before_last if program.place.engine == "vllm" else last_ones
    counts = rule(len(program.runs), len(program.order))
    yield "layers a stage", ",".join(map(str, counts))
    found = PlaceSearch(program.problem, partition=tuple(counts)).best()
    if found is None:
        yield "fits", "no: a stage is out of memory"
        return
    usable = program.usable(found.values) or []
    for pool, blocks in zip(program.instance.pools, usable, strict=True):
        yield f"blocks of {pool.name}", f"{blocks:,}"
    for fitted, value in zip(program.instance.fitted, found.values.fitted, strict=True):
        yield f"{'count' if fitted.is_count else 'capacity'} of {fitted.name}", f"{value:,}"


def _llamacpp(program: Program, found: Placed) -> Iterator[tuple[str, str]]:
    """--fit at this context, and --n-cpu-moe on the default split."""
    spread = program.spread(found.values, ("speed",))
    if spread is None or spread.host != 0:
        return
    slots, devices = _slots(spread), _devices(spread)
    if len(slots) == len(program.runs):
        slots.append(SlotBytes(0))
        spread = spread._replace(
            slots=(*spread.slots, spread.slots[-1]._replace(fixed=0, held=0, read=0, experts=()))
        )
    chosen = fit(slots, devices)
    yield "--fit", _told(spread, _of_fit(spread, chosen), chosen.used)
    split = least_cpu_moe(slots, devices)
    if split is not None:
        number, counts = split
        answer = _of_split(spread, number, counts)
        yield f"--n-cpu-moe {number}", _told(spread, answer, measure(spread, answer).used[1:])


def note_of_fit(program: Program, found: Placed, picoseconds: int | None) -> tuple[str, ...]:
    """What to ask for where --fit is faster: it lets experts overflow to the next card."""
    place = program.place
    spread = program.spread(found.values, ("speed",))
    is_own = place.experts == "own" and place.unit == "tensor" and not place.mirror
    if place.engine != "llama.cpp" or not is_own or spread is None or spread.host != 0:
        return ()
    if not picoseconds or len(spread.slots) == len(program.runs):
        return ()
    answer = _of_fit(spread, fit(_slots(spread), _devices(spread)))
    told = measure(spread, answer)
    if any(short_by(spread, told)) or told.picoseconds >= picoseconds:
        return ()
    faster = tokens_a_second(told.picoseconds)
    return (
        f"--fit is faster here, {faster} tokens/s: it puts experts on the next card too, as "
        "experts: next in place allows",
    )


def _slots(spread: Spread) -> list[SlotBytes]:
    return [SlotBytes(slot.held, tuple(t.bytes for t in slot.experts)) for slot in spread.slots]


def _devices(spread: Spread) -> list[Device]:
    return [Device(spread.spaces[at].room, spread.spaces[at].base) for at in spread.cards]


def _of_fit(spread: Spread, chosen: FitResult) -> Spreading:
    """The placement that --fit comes to; up, gate and down in the order of the problem."""
    counts = [card.layers for card in chosen.cards]
    host = len(spread.slots) - sum(counts)
    experts: list[tuple[int, ...]] = [(0,) * len(slot.experts) for slot in spread.slots[:host]]
    for at, card in enumerate(chosen.cards, start=1):
        behind = at + 1 if at < len(chosen.cards) else 0
        for index in range(card.layers):
            number = len(spread.slots[len(experts)].experts)
            kept = number if index < card.full else 0
            rest = 0
            if index == card.full and card.first != "MOE":
                kept, rest = min(number, KEPT[card.first]), behind
            experts.append((at,) * kept + (rest,) * (number - kept))
    return Spreading(tuple(accumulate([host, *counts])), tuple(experts))


def _of_split(spread: Spread, number: int, counts: Sequence[int]) -> Spreading:
    """The placement of --n-cpu-moe on a split of all slots."""
    own = [at for at, count in enumerate(counts, start=1) for _ in range(count)]
    experts = tuple(
        (0 if layer < number else own[layer],) * len(slot.experts)
        for layer, slot in enumerate(spread.slots)
    )
    return Spreading(tuple(accumulate([0, *counts])), experts)


def _told(spread: Spread, answer: Spreading, used: Sequence[int]) -> str:
    """Slots and experts by card, tokens a second, and what is over."""
    slots = [answer.spaces().count(at) for at in spread.cards]
    held = [sum(lies.count(at) for lies in answer.experts) for at in spread.cards]
    speed = tokens_a_second(measure(spread, answer).picoseconds)
    over = max(u - spread.spaces[at].room for at, u in zip(spread.cards, used, strict=True))
    short = f"; over by {human_bytes(over)}" if over > 0 else ""
    assert spread.host is not None
    host = spread.spaces[spread.host]
    over = measure(spread, answer).used[spread.host] - host.room
    short += f"; over by {human_bytes(over)} on {host.name}" if over > 0 else ""
    layers, experts = ",".join(map(str, slots)), ",".join(map(str, held))
    return f"slots {layers}; experts {experts}; {speed} tokens/s{short}"


def tokens_a_second(picoseconds: int) -> str:
    """10^12 / picoseconds with two decimals, rounded down."""
    hundredths = 100 * 10**12 // picoseconds if picoseconds else 0
    return f"{hundredths // 100}.{hundredths % 100:02d}"
