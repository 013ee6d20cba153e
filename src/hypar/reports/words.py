"""The words and numbers that all documents of plans and scores share, and the one folding of their layers."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from hypar.document import Cell, Note
from hypar.network.dims import in_order
from hypar.sharding.dims import GRIDS, WORDS, choice_word, vocabulary
from hypar.sharding.space import parse_space
from hypar.sharding.tree import WHOLE_ARRAY, Split
from hypar.units import amount, faster_than, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from hypar.document import Tone
    from hypar.plan.plan import Plan
    from hypar.plan.score import GroupScore, Score

MOST_ROWS = 24
"""The most layers that are shown one by one."""

NEARLY_FULL = 0.9
"""The share of a device's memory from which a plan barely fits."""

PLACES = {
    "batch": "the batch",
    "in_channels": "input channels",
    "out_channels": "output channels",
    "height": "the height",
    "width": "the width",
    "groups": "groups of channels",
    "channels": "a join's channels",
}
"""Each dim in plain words."""


_NUMBERED = re.compile(r"(.+?)\.(\d+)\.(.+)")

OWN_DIM = "a dim of the model"
"""The meaning of a word that is a dim's name."""


class Level(NamedTuple):
    """A column of choices: successive levels at which every layer has one choice.

    Attributes:
        group: the device group; empty if there is one.
        splits: the levels.
    """

    group: str
    splits: tuple[Split, ...]

    @property
    def name(self) -> str:
        """The names of the levels, as ``H1-H4``."""
        return "-".join(dict.fromkeys(f"H{split.level + 1}" for split in (self.splits[0], self.splits[-1])))

    @property
    def key(self) -> str:
        """The name with that of the group."""
        return f"{self.group} {self.name}".lstrip()


class Part(NamedTuple):
    """Layers that share a row.

    Attributes:
        name: their name, as ``conv1``, ``layers.0-31.q`` or ``layer2``.
        layers: their names.
    """

    name: str
    layers: tuple[str, ...]

    @property
    def title(self) -> str:
        """The name with the number of layers."""
        return f"{self.name} x{len(self.layers)}" if len(self.layers) > 1 else self.name


def fold(layers: Sequence[str], key: Callable[[str], Hashable], *, most: int = MOST_ROWS) -> list[Part]:
    """Return the rows of a network: a row for each layer if they are few, otherwise one for several equal layers.

    Neighbouring blocks of one form, as ``layers.0`` and ``layers.1``, share rows if all their layers are equal. If the rows
    are still many, equal neighbours of one part share one, then all equal neighbours.

    Args:
        layers: their names, in order.
        key: what layers of one row have in common.
        most: the most rows that are few.

    Examples:
        >>> [part.title for part in fold(["a", "b.0.x", "b.0.y", "b.1.x", "b.1.y"], len, most=3)]
        ['a', 'b.0-1.x x2', 'b.0-1.y x2']
        >>> [part.title for part in fold(["a", "b.0.x", "b.0.y", "b.1.x", "b.1.y"], len, most=2)]
        ['a', 'b x4']
    """
    if len(layers) <= most:
        return [Part(layer, (layer,)) for layer in layers]
    rows = _blocks(layers, key)
    if len(rows) > most:
        rows = _runs(layers, lambda layer: (_stem(layer), key(layer)))
    return rows if len(rows) <= most else _runs(layers, key)


def _stem(layer: str) -> str:
    return layer.partition(".")[0]


def _block(layer: str) -> tuple[str, str, str]:
    """Split a name at its first number between points, as ``layers``, ``0`` and ``q``."""
    found = _NUMBERED.match(layer)
    return (found[1], found[2], found[3]) if found else (layer, "", "")


def _blocks(layers: Sequence[str], key: Callable[[str], Hashable]) -> list[Part]:
    """Return a row for each layer of a block, once for neighbouring blocks of one form and equal layers."""
    blocks = [[*own] for _, own in groupby(layers, key=lambda layer: _block(layer)[:2])]
    found = []
    for _, run in groupby(blocks, key=lambda own: [(*_block(layer)[::2], key(layer)) for layer in own]):
        for alike in zip(*run, strict=True):
            ends = zip(alike[0].split("."), alike[-1].split("."), strict=True)
            found.append(Part(".".join("-".join(dict.fromkeys(words)) for words in ends), alike))
    return found


def _runs(layers: Sequence[str], key: Callable[[str], Hashable]) -> list[Part]:
    """Return a row for each run of equal neighbours, by the name of their part if they are the whole of it."""
    found = []
    for _, run in groupby(layers, key=key):
        own = tuple(run)
        stem, last = _stem(own[0]), own[-1]
        name = own[0] if len(own) == 1 else f"{own[0]} to {last.removeprefix(f'{stem}.')}"
        if len(own) > 1 and [layer for layer in layers if _stem(layer) == stem] == [*own]:
            name = stem
        found.append(Part(name, own))
    return found


def words_of(plan: Plan) -> int:
    """Return the index of the words in which a plan's choices are shown: those of grids for all if one is a grid."""
    space = parse_space(plan.space, None)
    choices = {(split.choice(layer), split.ways) for split in plan.splits for layer in split.choices}
    words = vocabulary({dim for choice, _ in choices for dim, _ in choice.degrees}.union(space.dims))
    texts = (choice_word(choice.degrees, ways, words, grids=space.grids) for choice, ways in choices)
    return GRIDS if any(text[-1].isdecimal() for text in texts) else words


def cells_of(plan: Plan) -> Callable[[Split, str], Cell]:
    """Return the function that gives a layer's choice at a split, in the words of one paper for the whole plan.

    At a split inside the stages of another device group a layer has no choice, and the cell is empty.
    """
    grids, words = parse_space(plan.space, None).grids, words_of(plan)

    def cell(split: Split, layer: str) -> Cell:
        if layer not in split.choices:
            return Cell("")
        choice = split.choice(layer)
        text = choice_word(choice.degrees, split.ways, words, grids=grids)
        return Cell(text, tuple((dim, degree) for dim, degree in choice.degrees if degree > 1))

    return cell


def levels_of(plan: Plan, *, joined: bool = True) -> list[Level]:
    """Return a column for each level.

    Args:
        plan: the plan.
        joined: whether neighbouring levels at which every layer has one choice share a column.
    """
    cell = cells_of(plan)
    found: list[Level] = []
    last: list[Cell] = []
    for split in plan.splits:
        group = "" if split.group == WHOLE_ARRAY else split.group
        cells = [cell(split, layer) for layer in plan.layers]
        if joined and found and cells == last and group == found[-1].group:
            found[-1] = Level(group, (*found[-1].splits, split))
        else:
            found.append(Level(group, (split,)))
        last = cells
    return found


def stage_numbers(plan: Plan) -> dict[str, int]:
    """Return the number of each layer's stage, from 1; empty without stages."""
    if plan.stages is None or not plan.staged:
        return {}
    return {layer: number for number, stage in enumerate(plan.stages.stages, 1) for layer in stage.layers}


def layer_costs(plan: Plan) -> dict[str, float]:
    """Return the cost of each layer, over all levels that the plan's cost sums."""
    return {layer: math.fsum(split.costs.get(layer, 0) for split in plan.summed) for layer in plan.layers}


def parts_of(plan: Plan, *, most: int = MOST_ROWS) -> list[Part]:
    """Return the rows of a plan: layers of one row have equal choices, on as many devices, in one stage."""
    cells, stages, counted = cells_of(plan), stage_numbers(plan), plan.in_grids
    keys = {
        layer: (
            stages.get(layer),
            tuple(cells(split, layer) for split in plan.splits),
            plan.devices(layer) if counted else 0,
        )
        for layer in plan.layers
    }
    return fold(plan.layers, keys.__getitem__, most=most)


def asked(plan: Plan) -> str:
    """Describe the batch and the array: ``batch 256, 16 devices (4 stages of 2x2)``."""
    array = _mixed_array(plan) if plan.heterogeneous else _array(plan)
    return f"batch {plan.model.batch}, {plan.num_devices} devices ({array})"


def _array(plan: Plan) -> str:
    outside = 0 if plan.stages is None else plan.stages.outside or 0
    outer, inner = ("x".join(map(str, ways)) for ways in (plan.array[:outside], plan.array[outside:]))
    if not plan.staged:
        return inner
    return f"{outer} times " * bool(outer) + _stages(plan) + f" of {inner}" * bool(inner)


def _mixed_array(plan: Plan) -> str:
    counts = {name: math.prod(ways) for name, ways in (plan.arrays or {}).items()}
    if plan.stages is None or not plan.staged:
        return " + ".join(f"{count} {name}" for name, count in counts.items())
    own, each = plan.stages.of_each_group, plan.stages.groups or (WHOLE_ARRAY,)
    under = ((root, group.name) for root in each for group in plan.groups if group.root == root)
    return f"{_stages(plan)}: " + " + ".join(f"{own} of {counts[name]} {name}" for _, name in under)


def _stages(plan: Plan) -> str:
    count = 0 if plan.stages is None else len(plan.stages.stages)
    return f"{count} stage{'s' * (count > 1)}"


def on_machine(score: Score | None) -> str:
    """Name the machine with its changed values; empty without a score."""
    if score is None:
        return ""
    changes = "".join(f" {name}={value}" for name, value in score.hardware_changes.items())
    return f"on {score.hardware}{changes}"


def headline(plan: Plan) -> str:
    """Describe the network, the array and the strategy."""
    return f"{plan.model.name}, {asked(plan)}, strategy {plan.strategy}"


def tone_of(score: Score | GroupScore | None) -> Tone:
    """Return whether a plan fits the memory of its machine, barely fits, or does not; empty if that is not known."""
    if score is None:
        return ""
    full = max((held / there for held, there in _memories(score)), default=None)
    return "bad" if not score.fits else "" if full is None else "warn" if full >= NEARLY_FULL else "good"


def _memories(score: Score | GroupScore) -> list[tuple[float, float]]:
    """Return the bytes that a device of each group holds and has, where the latter is known."""
    parts = getattr(score, "groups", None) or (score,)
    return [(part.memory_bytes, part.capacity_bytes) for part in parts if part.capacity_bytes]


def fit(score: Score) -> str:
    """Say whether a plan fits: ``fits``, ``barely fits (7.60 GB of 8.00 GB)``; empty if that is not known."""
    word = {"": "", "good": "fits", "warn": "barely fits", "bad": "does not fit"}[tone_of(score)]
    if word in {"", "fits"}:
        return word
    held, there = max(_memories(score), key=lambda pair: pair[0] / pair[1])
    return "{} ({} of {})".format(word, *_unequal(held, there))


def unfit(score: Score | None) -> str:
    """Say by how much a plan exceeds its machine's memory; empty if it fits."""
    if score is None or score.fits:
        return ""
    parts: list[tuple[str, Score | GroupScore]] = [(f"of {own.group} ", own) for own in score.groups or ()]
    each = [
        "a device {}needs {} and has {}".format(name, *_unequal(own.memory_bytes, own.capacity_bytes or 0.0))
        for name, own in parts or [("", score)]
        if not own.fits
    ]
    more = f"; and {len(each) - 3} more" if len(each) > 3 else ""
    return f"does not fit {score.hardware}: {'; '.join(each[:3])}{more}"


def _unequal(held: float, there: float) -> tuple[str, str]:
    """Format the bytes held and those there are, exactly if there are too few and the rounded numbers are equal."""
    texts = format_bytes(held), format_bytes(there)
    exact = f"{math.ceil(held):,} B", f"{math.ceil(there):,} B"
    return exact if held > there and texts[0] == texts[1] else texts


def against(name: str, base: Score, own: Score) -> str:
    """Compare a step with that of a baseline: ``2.87x slower than dp, which does not fit``."""
    unfit = "" if base.fits else ", which does not fit" + " either" * (not own.fits)
    return faster_than(name, base.time_s, own.time_s) + unfit


def items(amounts: Mapping[str, float], unit: str) -> str:
    """Name the items of a total that are not 0."""
    return ", ".join(f"{name} {amount(number, unit)}" for name, number in amounts.items() if number) or "none"


def choice_keys(cells: Iterable[Cell]) -> dict[str, str]:
    """Return what each word of choices means, of a grid's choice what its letters do."""
    used = [cell for cell in dict.fromkeys(cells) if cell.text]
    places: dict[str, dict[str, None]] = {}
    for dim in (*PLACES, *in_order({dim for cell in used for dim, _ in cell.parts} - {*PLACES})):
        for cell in used:
            word = WORDS[dim][GRIDS] if _is_grid(cell) else cell.text
            letters = re.findall("[a-z_]+", cell.text) if dim != "channels" else ()
            if dim in dict(cell.parts) or (_is_grid(cell) and word in letters):
                places.setdefault(word, {})[PLACES.get(dim, "")] = None
    found = {word: f"cuts {' or '.join(own)}" if any(own) else OWN_DIM for word, own in places.items()}
    whole = {cell.text: "cuts nothing" for cell in used if not cell.parts and not _is_grid(cell)}
    return found | whole


def choice_notes(cells: Iterable[Cell]) -> list[Note]:
    """Explain the words of choices in one note; none without choices."""
    counted = Counter(cells)
    keys = choice_keys(counted)
    own = ", ".join(word for word, meaning in keys.items() if meaning == OWN_DIM)
    grids = [cell.text for cell, _ in counted.most_common() if _is_grid(cell)]
    found = [f"{word} {meaning}" for word, meaning in keys.items() if meaning != OWN_DIM]
    found += [f"the numbers of {grids[0]} count shards" for _ in grids[:1]]
    found += [f"{own}: dims of the model"] * bool(own)
    return [Note("choices", "; ".join(found))] if found else []


def _is_grid(cell: Cell) -> bool:
    return cell.text[-1:].isdecimal()
