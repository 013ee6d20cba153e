"""The words and numbers that all documents of plans and scores share, and the one folding of their layers."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from hypar.document import Cell, Note
from hypar.sharding.dims import GRIDS, WORDS, choice_word, grid_of, vocabulary
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
    None: "nothing",
}
"""Each dim in plain words, and none."""


class Level(NamedTuple):
    """A column of choices: successive levels of a device group at which every layer has one choice."""

    group: str
    splits: tuple[Split, ...]

    @property
    def name(self) -> str:
        """The names of the levels, as ``H1-H4``."""
        return "-".join(dict.fromkeys(f"H{split.level + 1}" for split in (self.splits[0], self.splits[-1])))

    @property
    def key(self) -> str:
        """The name with that of the group, which is empty if there is one."""
        return f"{self.group} {self.name}".lstrip()


class Part(NamedTuple):
    """Layers that share a row, and its name, as ``conv1``, ``layers.0-31.q`` or ``layer2``."""

    name: str
    layers: tuple[str, ...]

    @property
    def title(self) -> str:
        """The name with the number of layers."""
        return f"{self.name} x{len(self.layers)}" if len(self.layers) > 1 else self.name


def fold(layers: Sequence[str], key: Callable[[str], Hashable], *, most: int = MOST_ROWS) -> list[Part]:
    """Return the rows of a network: one for each layer if they are few, otherwise one for several with an equal key.

    Neighbouring blocks of one form, as ``layers.0`` and ``layers.1``, share rows if all their layers are equal. If the rows
    are still many, equal neighbours of one part share one.

    Examples:
        >>> [part.title for part in fold(["a", "b.0.x", "b.0.y", "b.1.x", "b.1.y"], len, most=3)]
        ['a', 'b.0-1.x x2', 'b.0-1.y x2']
        >>> [part.title for part in fold(["a", "b.0.x", "b.0.y", "b.1.x", "b.1.y"], len, most=2)]
        ['a', 'b x4']
    """
    if len(layers) <= most:
        return [Part(layer, (layer,)) for layer in layers]
    rows = _blocks(layers, key)
    return rows if len(rows) <= most else _runs(layers, key)


def _blocks(layers: Sequence[str], key: Callable[[str], Hashable]) -> list[Part]:
    """Return a row for each layer of a block, once for neighbouring blocks of one form and equal layers."""
    names = {layer: re.match(r"(.+?)\.(\d+)\.(.+)", layer) for layer in layers}
    split = {layer: found.groups() if found else (layer, "", "") for layer, found in names.items()}
    blocks = [[*own] for _, own in groupby(layers, key=lambda layer: split[layer][:2])]
    rows = []
    for _, run in groupby(blocks, key=lambda own: [(*split[layer][::2], key(layer)) for layer in own]):
        for alike in zip(*run, strict=True):
            ends = zip(alike[0].split("."), alike[-1].split("."), strict=True)
            rows.append(Part(".".join("-".join(dict.fromkeys(words)) for words in ends), alike))
    return rows


def _runs(layers: Sequence[str], key: Callable[[str], Hashable]) -> list[Part]:
    """Return a row for each run of equal neighbours of a part, by the part's name if they are the whole of it."""
    stems = {layer: layer.partition(".")[0] if "." in layer else "" for layer in layers}
    sizes, rows = Counter(stems.values()), []
    for (stem, _), run in groupby(layers, key=lambda layer: (stems[layer], key(layer))):
        own = tuple(run)
        name = f"{own[0]} to {own[-1].removeprefix(f'{stem}.')}"
        whole = stem and len(own) == sizes[stem]
        rows.append(Part(own[0] if len(own) == 1 else stem if whole else name, own))
    return rows


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
    """Return a column for each level; joined, one for neighbouring levels at which every layer has one choice."""
    cell = cells_of(plan)

    def key(split: Split) -> tuple[str, Hashable]:
        return split.group, tuple(cell(split, layer) for layer in plan.layers) if joined else id(split)

    return [
        Level("" if group == WHOLE_ARRAY else group, tuple(own))
        for (group, _), own in groupby(plan.splits, key=key)
    ]


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
    cells, stages = cells_of(plan), stage_numbers(plan)
    keys = {
        layer: (
            stages.get(layer),
            plan.devices(layer) if plan.in_grids else 0,
            *(cells(split, layer) for split in plan.splits),
        )
        for layer in plan.layers
    }
    return fold(plan.layers, keys.__getitem__, most=most)


def asked(plan: Plan) -> str:
    """Describe the batch and the array: ``batch 256, 16 devices (4 stages of 2x2)``."""
    return f"batch {plan.model.batch}, {plan.num_devices} devices ({_array(plan)})"


def _array(plan: Plan) -> str:
    groups = [f"{math.prod(ways)} {name}" for name, ways in (plan.arrays or {}).items()]
    if plan.stages is None or not plan.staged:
        return " + ".join(groups) if plan.heterogeneous else "x".join(map(str, plan.array))
    count = f"{len(plan.stages.stages)} stage{'s' * (len(plan.stages.stages) > 1)}"
    if plan.heterogeneous:
        return f"{count}: " + " + ".join(f"{plan.stages.of_each_group} of {own}" for own in groups)
    outside = plan.stages.outside or 0
    outer, inner = ("x".join(map(str, ways)) for ways in (plan.array[:outside], plan.array[outside:]))
    return f"{outer} times " * bool(outer) + count + f" of {inner}" * bool(inner)


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
    share = _share(_fullest(score))
    return "bad" if not score.fits else "warn" if share >= NEARLY_FULL else "good" if share else ""


def _share(part: Score | GroupScore) -> float:
    return part.memory_bytes / part.capacity_bytes if part.capacity_bytes else 0.0


def _fullest(score: Score | GroupScore) -> Score | GroupScore:
    """Return the step on the group of devices that is the fullest."""
    return max(getattr(score, "groups", None) or (score,), key=_share)


def fit(score: Score) -> str:
    """Say whether a plan fits: ``fits``, ``barely fits (7.60 GB of 8.00 GB)``; empty if that is not known."""
    word = {"": "", "good": "fits", "warn": "barely fits", "bad": "does not fit"}[tone_of(score)]
    return word + " ({} of {})".format(*_held(_fullest(score))) * (tone_of(score) in {"warn", "bad"})


def unfit(score: Score | None) -> str:
    """Say by how much a plan exceeds its machine's memory on the fullest device; empty if it fits."""
    if score is None or score.fits:
        return ""
    of = f"of {getattr(_fullest(score), 'group', '')} ".removeprefix("of  ")
    return "does not fit {}: a device {}needs {} and has {}".format(
        score.hardware, of, *_held(_fullest(score))
    )


def _held(part: Score | GroupScore) -> tuple[str, str]:
    """Format the bytes held and those there are, exactly if there are too few and the rounded numbers are equal."""
    held, there = part.memory_bytes, part.capacity_bytes or 0.0
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
    """Return what each word of choices cuts, of a grid's choice what its letters do; empty of a dim that the model names."""
    dims: dict[str, set[str | None]] = {}
    for text, parts in dict.fromkeys(cell for cell in cells if cell.text):
        grid = _grid(text)
        for dim in {**grid, **dict(parts)} or (None,):
            dims.setdefault(WORDS[dim][GRIDS] if grid else text, set()).add(dim)
    found: dict[str, list[str]] = {}
    for dim, place in PLACES.items():
        for word in (word for word, own in dims.items() if dim in own):
            found.setdefault(word, []).append(place)
    named = dict.fromkeys(sorted({*dims} - {*found}), "")
    return {word: f"cuts {' or '.join(own)}" for word, own in found.items()} | named


def choice_notes(cells: Iterable[Cell]) -> list[Note]:
    """Explain the words of choices in one note; none without choices."""
    counted = Counter(cell for cell in cells if cell.text)
    keys = choice_keys(counted)
    found = [f"{word} {meaning}" for word, meaning in keys.items() if meaning]
    grids = [cell.text for cell, _ in counted.most_common() if _grid(cell.text)]
    found += [f"the numbers of {grids[0]} count shards"] if grids else []
    named = ", ".join(word for word, meaning in keys.items() if not meaning)
    found += [f"{named}: dims of the model"] if named else []
    return [Note("choices", "; ".join(found))] if found else []


def _grid(text: str) -> dict[str, int]:
    return grid_of(text, "choice", None) or {}
