"""The search for the best mapping, beside all mappings tried one by one, and words counted by walking its loops."""

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from hypar.machine.compute_models.blocked_row_stationary import run_length_words
from hypar.machine.spatial import Blocking, PhaseLoops, SetLayout, Unit, best_blocking
from tests.effort import examples

UNIT = Unit(rows=4, columns=5, weight_words=14, input_words=8, output_words=3)
STORES: list[dict[str, Any]] = [
    {},
    {"buffer": 60},
    {"buffer": 150},
    {"buffer": 400},
    {"buffer": 160, "bank_words": 16},
    {"buffer": 120, "weight_buffer_words": 30},
    {"buffer": 160, "bank_words": 32, "weight_buffer_words": 24, "resident": "result"},
    {"buffer": 150, "fewest": "words"},
    {"buffer": 240, "bank_words": 24, "weight_buffer_words": 40, "resident": "result", "fewest": "product"}
    | {"pass_rows": "bank"},
    {"buffer": 300, "bank_words": 30, "pass_rows": "bank"},
    {"buffer": 180, "bank_words": 12, "pass_rows": "bank"},
]


def random_nest(draw: random.Random) -> PhaseLoops:
    kernel, taps, stride = draw.randint(1, 5), draw.randint(1, 4), draw.randint(1, 2)
    width = draw.randint(1, 5)
    return PhaseLoops(
        samples=draw.randint(1, 4),
        groups=draw.choice([1, 1, 2]),
        channels=draw.randint(1, 6),
        filters=draw.randint(1, 6),
        kernel=kernel,
        taps=taps,
        height=draw.randint(1, 7),
        width=width,
        stride=stride,
        extent=kernel,
        read_width=(width - 1) * stride + taps,
        gradient=draw.random() < 0.3,
        across=stride,
        packed=draw.choice([(1.0, 1.0), (0.25, 1.25)]),
    )


def divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


Mapping = tuple[float, float, float]
"""Cycles, words from memory and words from the buffer."""


Pass = tuple[int, int, int, int, int]
"""Sets along channels, filters and samples, and channels and filters of an element."""


def every_layout(unit: Unit, kernel: int, height: int) -> Iterator[SetLayout]:
    """All widths that pieces of a set may have, with the sets that the array then holds."""
    parts = next(parts for parts in range(1, kernel + 1) if math.ceil(kernel / parts) <= unit.rows)
    kernel_rows = math.ceil(kernel / parts)
    bands = unit.rows // kernel_rows
    for width in range(1, min(height, bands * unit.columns) + 1):
        folds = math.ceil(height / width)
        if height // folds < 2 and min(height, bands * unit.columns) > 1:
            continue
        stacked = math.ceil(width / unit.columns)
        below, beside = bands // stacked, max(1, unit.columns // width)
        sets = max(below, beside) if unit.sets == "line" and width > 1 else below * beside
        yield SetLayout(kernel_rows, parts, width, folds, sets)


def every_mapping(loops: PhaseLoops, unit: Unit) -> Iterator[Mapping]:
    yield from mappings_of(loops, unit)
    if unit.pass_rows == "bank" and loops.width > 1:
        yield from mappings_of(loops.halved(), unit)


def mappings_of(loops: PhaseLoops, unit: Unit) -> Iterator[Mapping]:
    for layout in every_layout(unit, loops.kernel, loops.height):
        if layout.columns > math.ceil(loops.height / layout.folds):
            continue  # the pieces are not even
        if loops.whole_width and not may_be_halved(loops, unit, layout):
            continue
        most = most_channels(loops, unit, layout)
        for r, t, b in full_grids(loops, layout.sets, most):
            for q, p in itertools.product(range(1, loops.channels + 1), range(1, 4)):
                if q * r <= most and element_holds(loops, unit, (r, t, b, q, p)):
                    yield from every_tile(loops, unit, layout, (r, t, b, q, p))


def may_be_halved(loops: PhaseLoops, unit: Unit, layout: SetLayout) -> bool:
    """Whether one channel's rows exceed a bank when they are whole, and fit when halved."""
    rows = (layout.columns - 1) * loops.stride + loops.extent
    return rows * loops.whole_width > unit.bank_words and rows * loops.read_width <= unit.bank_words


def most_channels(loops: PhaseLoops, unit: Unit, layout: SetLayout) -> float:
    """Channels of a sample whose rows fit a bank, or as many as fill the array."""
    if unit.pass_rows != "bank":
        return math.inf
    plane = ((layout.columns - 1) * loops.stride + loops.extent) * loops.read_width
    if loops.whole_width:
        return unit.bank_words // plane
    others = loops.filters * loops.samples * loops.groups
    return max(1, unit.bank_words // plane, math.ceil(layout.sets / others))


def element_holds(loops: PhaseLoops, unit: Unit, taken: Pass) -> bool:
    """Whether registers, the part for W and the layer itself have so many channels and filters."""
    r, t, _, q, p = taken
    side, deep = q * r, p * t
    if q > 1 and (q * (loops.taps + 1) > unit.input_words or q * loops.taps > unit.weight_words):
        return False
    if p > 1 and p * q * loops.taps > unit.weight_words:
        return False
    streams = unit.weight_buffer_words and not loops.gradient and side * deep > 1
    if streams and side * deep * loops.kernel * loops.taps > unit.weight_buffer_words:
        return False
    return side < loops.channels + r and deep < loops.filters + t


def every_tile(loops: PhaseLoops, unit: Unit, layout: SetLayout, taken: Pass) -> Iterator[Mapping]:
    r, t, b, q, p = taken
    side, deep = q * r, p * t
    inner = (
        ["channels", "filters", "samples"]
        if loops.gradient or not unit.weight_buffer_words
        else ["channels", "filters"]
    )
    if unit.resident == "result":
        inner = ["samples"] if loops.gradient else ["channels"]
    for loop in inner:
        sizes = [
            [b] if loop == "samples" else divisors(loops.samples * loops.groups),
            [min(deep, loops.filters)] if loop == "filters" else divisors(loops.filters),
            [min(side, loops.channels)] if loop == "channels" else divisors(loops.channels),
        ]
        for n, m, c in itertools.product(*sizes):
            whole = b <= n and (deep <= m or loop == "filters") and (side <= c or loop == "channels")
            if whole and banks(loops, unit, layout, n, m, c) <= capacity(unit):
                cycles = layout.rounds(loops.planes, 1) * loops.taps * loops.width
                yield cycles, *words(loops, unit, layout, loop, (n, m, c), side, deep)


def full_grids(loops: PhaseLoops, sets: int, most: float) -> list[tuple[int, int, int]]:
    limits = int(min(loops.channels, most)), loops.filters, loops.samples * loops.groups
    every = itertools.product(*(range(1, min(limit, sets) + 1) for limit in limits))
    kept = [grid for grid in every if math.prod(grid) <= sets]

    def grows(grid: tuple[int, ...], axis: int) -> bool:
        larger = [size + (place == axis) for place, size in enumerate(grid)]
        return larger[axis] <= limits[axis] and math.prod(larger) <= sets

    return [(r, t, b) for r, t, b in kept if not any(grows((r, t, b), axis) for axis in range(3))]


def capacity(unit: Unit) -> float:
    return math.inf if unit.buffer == math.inf else int(unit.buffer) // unit.bank_words


def banks(loops: PhaseLoops, unit: Unit, layout: SetLayout, n: int, m: int, c: int) -> int:
    """Banks of a tile."""
    rows = (layout.columns - 1) * loops.stride + loops.extent
    held = [n * c * rows * loops.read_width, n * m * layout.columns * loops.width]
    if loops.gradient or not unit.weight_buffer_words:
        held.append(m * c * loops.kernel * loops.taps * math.ceil(n / loops.samples))
    return sum(math.ceil(amount / unit.bank_words) for amount in held)


def words(
    loops: PhaseLoops,
    unit: Unit,
    layout: SetLayout,
    loop: str,
    tile: tuple[int, int, int],
    side: int,
    deep: int,
) -> tuple[float, float]:
    n, m, c = tile
    pieces = [min(layout.columns, loops.height - first) for first in range(0, loops.height, layout.columns)]
    rows = sum((piece - 1) * loops.stride + loops.extent for piece in pieces)
    n_all = loops.samples * loops.groups
    f_in = n_all * loops.channels * rows * loops.read_width
    f_out = n_all * loops.filters * loops.height * loops.width
    weights = loops.groups * loops.filters * loops.channels * loops.kernel * loops.taps
    again = len(pieces) * max(math.ceil(n_all / n), loops.groups) / loops.groups
    turns: dict[str, float] = {
        "input": 1 if loop == "filters" else loops.filters / m,
        "output": 1 if loop == "channels" else loops.channels / c,
        "weight": 1 if loop == "samples" else again,
    }
    result = "weight" if loops.gradient else "output"
    turns[result] = 2 * turns[result] - 1
    stored = f_in * loops.packed[0], f_out * loops.packed[1]
    memory = stored[0] * turns["input"] + stored[1] * turns["output"] + weights * turns["weight"]
    over, along = (
        math.ceil(loops.filters / m) * math.ceil(m / deep),
        math.ceil(loops.channels / c) * math.ceil(c / side),
    )
    loads = 1 if loop == "samples" and m <= deep and c <= side else again
    buffer: float = f_in * over + f_out * along * (1 if loops.gradient else 2)
    if loops.gradient:
        buffer += 2 * weights * loads
    elif not unit.weight_buffer_words:
        buffer += weights * loads
    return memory, buffer


def rank(unit: Unit, mapping: Mapping) -> tuple[float, ...]:
    cycles, memory, buffer = mapping
    return {
        "cycles": (cycles, memory, buffer),
        "words": (memory, buffer, cycles),
        "product": (cycles * memory, buffer),
    }[unit.fewest]


def test_the_best_mapping_equals_exhaustive_search_on_random_layers() -> None:
    draw = random.Random(16)
    compared = halved = 0
    layers = examples(500, 150)
    for number in range(layers):
        loops, unit = random_nest(draw), UNIT._replace(**STORES[number % len(STORES)])
        unit = unit._replace(sets="line" if draw.random() < 0.3 else "any")
        found = best_blocking(loops, unit, loops.planes, 1)
        mappings = list(every_mapping(loops, unit))
        assert bool(mappings) == bool(found.innermost), (loops, unit)
        if not mappings:
            continue
        compared += 1
        halved += bool(found.loops.whole_width)
        ours = rank(unit, found.counts)
        assert ours == pytest.approx(min(rank(unit, each) for each in mappings), rel=1e-12), (loops, unit)
    assert compared > 0.8 * layers
    assert halved > 0.01 * layers


def test_a_mapping_counts_as_its_layout_and_tile_say_and_no_wider_piece_fits() -> None:
    """As many sets and pieces, the same tile: a wider piece would leave more elements at work but for the last piece."""
    draw = random.Random(18)
    wide = 0
    for number in range(500):
        loops, unit = random_nest(draw), UNIT._replace(**STORES[number % len(STORES)])
        unit = unit._replace(sets="line" if draw.random() < 0.3 else "any")
        found = best_blocking(loops, unit, loops.planes, 1)
        if not found.innermost:
            continue
        loops = found.loops
        wide += found.layout.columns > math.ceil(loops.height / found.layout.folds)
        side, deep = (own * along for own, along in zip(found.interleaved, found.grid[:2], strict=True))
        counted = words(loops, unit, found.layout, found.innermost, found.tile, side, deep)
        assert found.counts[1:] == pytest.approx(counted)
        assert banks(loops, unit, found.layout, *found.tile) <= capacity(unit)
        for layout in every_layout(unit, loops.kernel, loops.height):
            like = layout._replace(columns=found.layout.columns) == found.layout
            if like and layout.columns > found.layout.columns:
                too_many = side > most_channels(loops, unit, layout)
                too_many |= bool(found.loops.whole_width) and not may_be_halved(loops, unit, layout)
                assert too_many or banks(loops, unit, layout, *found.tile) > capacity(unit)
    assert wide > 10


def walked(loops: PhaseLoops, found: Blocking, outer: tuple[str, ...]) -> float:
    """Words from memory of a mapping, by walking its tiles in an order and counting each change of a tile."""
    layout, (n, m, c) = found.layout, found.tile
    pieces = [min(layout.columns, loops.height - first) for first in range(0, loops.height, layout.columns)]
    in_channels = [min(c, loops.channels - first) for first in range(0, loops.channels, c)]
    in_filters = [min(m, loops.filters - first) for first in range(0, loops.filters, m)]
    in_samples = [
        (min(n, loops.samples - first), piece) for first in range(0, loops.samples, n) for piece in pieces
    ]
    lengths = {"channels": len(in_channels), "filters": len(in_filters), "samples": len(in_samples)}
    held: dict[str, tuple[int, ...]] = {}
    seen: set[tuple[str, tuple[int, ...]]] = set()
    total = 0.0
    for places in itertools.product(*(range(lengths[name]) for name in outer)):
        at = dict(zip(outer, places, strict=True))
        (count, piece), filters, channels = (
            in_samples[at["samples"]],
            in_filters[at["filters"]],
            in_channels[at["channels"]],
        )
        rows = (piece - 1) * loops.stride + loops.extent
        tensors: dict[str, tuple[tuple[int, ...], float]] = {
            "input": (
                (at["samples"], at["channels"]),
                count * channels * rows * loops.read_width * loops.packed[0],
            ),
            "output": (
                (at["samples"], at["filters"]),
                count * filters * piece * loops.width * loops.packed[1],
            ),
            "weight": ((at["channels"], at["filters"]), filters * channels * loops.kernel * loops.taps),
        }
        for name, (key, amount) in tensors.items():
            if held.get(name) == key:
                continue
            held[name] = key
            again = (name, key) in seen
            seen.add((name, key))
            # A result is written each time that it leaves, and read when it comes again.
            total += amount * (2 if again and name == ("weight" if loops.gradient else "output") else 1)
    return total


def test_words_from_memory_are_those_of_a_walk_through_the_tiles() -> None:
    draw = random.Random(17)
    for number in range(300):
        loops, unit = random_nest(draw)._replace(groups=1), UNIT._replace(**STORES[number % 5])
        found = best_blocking(loops, unit, loops.planes, 1)
        if not found.innermost:
            continue
        others = [name for name in ("channels", "filters", "samples") if name != found.innermost]
        orders = ((*order, found.innermost) for order in itertools.permutations(others))
        assert found.counts[1] == min(walked(loops, found, order) for order in orders), (loops, unit)


def test_a_buffer_without_room_for_a_pass_is_bypassed() -> None:
    loops = PhaseLoops(3, 1, 512, 512, 3, 3, 28, 28, 1, 3, 30, gradient=False)
    found = best_blocking(loops, Unit(12, 14, 224, 12, 24, buffer=54), loops.planes, 1)
    assert found.innermost == ""
    assert found.counts[1] == found.counts[2] > 50 * 3 * 512 * 28 * 28


# Run-length coded feature maps, beside a coder of random ones


def coded_words(elements: list[bool]) -> float:
    """Words of 16 bits of a map, an element being true unless it is zero: three pairs in 64 bits."""
    pairs, run = 0, 0
    for element in elements:
        if element or run == 31:
            pairs, run = pairs + 1, 0
        else:
            run += 1
    return -(-(pairs + (run > 0)) // 3) * 64 / 16


@pytest.mark.parametrize("zeros", [0.0, 0.016, 0.387, 0.793, 0.9, 0.97, 1.0])
def test_words_are_those_of_a_coder(zeros: float) -> None:
    draw = random.Random(1)
    elements = [draw.random() >= zeros for _ in range(200_000)]
    assert run_length_words(zeros) == pytest.approx(coded_words(elements) / len(elements), rel=0.02)


@pytest.mark.parametrize("side", [7, 14])
@pytest.mark.parametrize("zeros", [0.1, 0.387, 0.793, 0.9])
def test_a_code_of_a_channel_ends_in_a_word_that_may_have_room(zeros: float, side: int) -> None:
    draw, maps = random.Random(2), 600
    words = sum(coded_words([draw.random() >= zeros for _ in range(side**2)]) for _ in range(maps))
    mean = words / maps / side**2
    assert run_length_words(zeros, side**2) == pytest.approx(mean, rel=0.02)
    assert (mean - run_length_words(zeros)) * side**2 > 1


def test_a_map_whose_zeros_are_not_known_is_not_coded() -> None:
    assert run_length_words(None) == 1
    assert run_length_words(0.25) == pytest.approx(1)
    assert run_length_words(0.0) == pytest.approx(4 / 3)
