"""The words, numbers and colours that all documents of plans and scores share, and the one folding of their layers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from colorsys import hls_to_rgb
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from hypar.document import Cell, Column, Note, Table, Tone
from hypar.ops.dims import CONTRACTED, MADE, READ, atom_of
from hypar.plan.plan import Plan
from hypar.plan.records import GroupScore, Score
from hypar.sharding.dims import GRIDS, SPATIAL, choice_word, grid_of, word_of
from hypar.sharding.placement import Choice
from hypar.sharding.space import parse_space
from hypar.sharding.tree import WHOLE_ARRAY, Split
from hypar.units import amount, format_bytes

Key = TypeVar("Key")

TOTALS = (
    Column("time_s", "time", "seconds"), Column("energy_j", "energy", "joules"),
    Column("communication_bytes", "received", "bytes"), Column("memory_bytes", "memory", "bytes"),
)  # fmt: skip
"""The totals of a step."""

MOST_ROWS, NEARLY_FULL = 24, 0.9
"""The most layers that are shown one by one; and the share of a device's memory from which a plan barely fits."""

PLACES = {
    "batch": "the batch", "in_channels": "input channels", "out_channels": "output channels", "height": "the height",
    "width": "the width", "groups": "groups of channels", "channels": "a join's channels", "whole": "nothing",
}  # fmt: skip
"""Each dim in plain words, and none."""


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
    are still many, equal neighbours of one part share one, where those are fewer.

    Examples:
        >>> [part.title for part in fold(["a", "b.0.x", "b.0.y", "b.1.x", "b.1.y"], len, most=3)]
        ['a', 'b.0-1.x x2', 'b.0-1.y x2']
        >>> [part.title for part in fold(["a", "b.0.x", "b.0.y", "b.1.x", "b.1.y"], len, most=2)]
        ['a', 'b x4']
    """
    if len(layers) <= most:
        return [Part(layer, (layer,)) for layer in layers]
    rows = _blocks(layers, key)
    return rows if len(rows) <= most else min(rows, _runs(layers, key), key=len)


def _blocks(layers: Sequence[str], key: Callable[[str], Hashable]) -> list[Part]:
    """Return a row for each layer of a block, once for neighbouring blocks of one form and equal layers."""
    found = {layer: re.fullmatch(r"(.+?)\.(\d+)\.(.+)", layer) for layer in layers}
    split = {layer: own.groups() if own else (layer, "", "") for layer, own in found.items()}
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


def texts_of(plan: Plan) -> Callable[[Choice, int], str]:
    """Return the function that names a choice on some ways in the words of one paper for the whole plan: of grids if one is a grid."""
    space = parse_space(plan.space, None)
    choices = {(split.choice(layer), split.ways) for split in plan.splits for layer in split.choices}
    dims = {dim for choice, _ in choices for dim, _ in choice.degrees}.union(space.dims)
    # The words that suit a space: HyPar's (dp, mp), AccPar's (three types), or DeePa's.
    words = GRIDS if {*SPATIAL} & dims else int("out_channels" in dims)
    texts = (choice_word(choice.degrees, ways, words, grids=space.grids) for choice, ways in choices)
    words = GRIDS if any(text[-1].isdecimal() for text in texts) else words
    return lambda choice, ways: choice_word(choice.degrees, ways, words, grids=space.grids)


def cells_of(plan: Plan) -> Callable[[Split, str], Cell]:
    """Return the function that gives a layer's choice at a split as ``texts_of``, empty inside the stages of another group."""
    text_of = texts_of(plan)

    def cell(split: Split, layer: str) -> Cell:
        if layer not in split.choices:
            return Cell("")
        text = text_of(split.choice(layer), split.ways)
        grid = zip(text.split(), _grid(text).items(), strict=False)
        parts = [(word, dim) for word, (dim, degree) in grid if degree > 1]
        return Cell(text, (*parts,) or ((text, split.dim(layer) or "whole"),))

    return cell


def levels_of(group: str, levels: Iterable[int | None]) -> str:
    """Return the name of levels of a device group, as ``H1-H3, H5`` or ``tpu-v2 H1``; of None the group's."""
    numbered = enumerate(sorted(level for level in levels if level is not None))
    runs = [[level for _, level in run] for _, run in groupby(numbered, lambda pair: pair[1] - pair[0])]
    words = ["-".join(f"H{level + 1}" for level in dict.fromkeys((run[0], run[-1]))) for run in runs]
    return f"{'' if group == WHOLE_ARRAY else group} {', '.join(words)}".strip()


def stage_numbers(plan: Plan) -> dict[str, int]:
    """Return the number of each layer's stage, from 1; empty without stages."""
    stages = plan.stages.stages if plan.stages is not None and plan.staged else ()
    return {layer: number for number, stage in enumerate(stages, 1) for layer in stage.layers}


def layers_cost(plan: Plan) -> Callable[[Sequence[str]], dict[str, Any]]:
    """Return the function that gives the cost of some layers over all levels that the plan's cost sums, if it has one."""
    each = {layer: [split.costs.get(layer, 0) for split in plan.summed] for layer in plan.layers}

    def cost(layers: Sequence[str]) -> dict[str, Any]:
        value = math.fsum(own for layer in layers for own in each[layer])
        bar = (0.0, value) if plan.cost.unit == "bytes" else (value, 0.0)
        return {"cost": value, "bar": bar} if plan.cost.value else {}

    return cost


def devices_of(plan: Plan) -> dict[str, int]:
    """Return how many devices work for each layer, where a level may divide several dims at once, or leave some idle."""
    grids = not plan.heterogeneous and parse_space(plan.space, plan.model.dims or ()).grids
    found = {layer: plan.devices(layer) for layer in plan.layers} if grids else {}
    told = max(plan.array, default=1) > 2 or any(own < math.prod(plan.array) for own in found.values())
    return found if told else {}


def parts_of(plan: Plan, *, most: int = MOST_ROWS) -> list[Part]:
    """Return the rows of a plan: layers of one row have equal choices, on as many devices, whatever their stages."""
    cells = cells_of(plan)
    found = {layer: [cells(split, layer) for split in plan.splits] for layer in plan.layers}
    devices = devices_of(plan)
    return fold(plan.layers, lambda own: (devices.get(own), *found[own]), most=most)


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
    return max(getattr(score, "groups", None) or (score,), key=_share)


def fit(score: Score) -> str:
    """Say whether a plan fits, as ``barely fits (7.60 GB of 8.00 GB)``, in exact bytes if rounded ones are equal; else empty."""
    word = {"": "", "good": "fits", "warn": "barely fits", "bad": "does not fit"}[tone_of(score)]
    if word in {"", "fits"}:
        return word
    full = _fullest(score)
    held, there = full.memory_bytes, full.capacity_bytes or 0.0
    texts = format_bytes(held), format_bytes(there)
    if held > there and texts[0] == texts[1]:
        texts = f"{math.ceil(held):,} B", f"{math.ceil(there):,} B"
    group = getattr(full, "group", "")
    return f"{word} ({' of '.join(texts)}{f' on {group}' * bool(group)})"


def items(amounts: Mapping[str, float], unit: str) -> str:
    """Name the items of a total that are not 0."""
    return ", ".join(f"{name} {amount(number, unit)}" for name, number in amounts.items() if number) or "none"


def choice_notes(cells: Iterable[Cell]) -> list[Note]:
    """Explain the words of choices, of a grid's choice its letters, in one note; none without choices."""
    found = [(cell, _grid(cell.text)) for cell in dict.fromkeys(cells)]
    each = ([(word_of(dim, GRIDS), dim) for dim in grid] or cell.parts for cell, grid in found)
    named = {dim: word for parts in each for word, dim in parts}
    places = grouped((named[dim], place) for dim, place in PLACES.items() if dim in named)
    said = [f"{word} cuts {' or '.join(own)}" for word, own in places.items()]
    said += ["numbers count shards"] * any(grid for _, grid in found)
    return [Note("choices", "; ".join(said))] if said else []


def _grid(text: str) -> dict[str, int]:
    return grid_of(text, "choice", None) if any(map(str.isdigit, text)) else {}


def data(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows that JSON, CSV and data frames have, and readers see in another form."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return Table(tuple(Column(key, show=False) for key in keys), [*map(dict, rows)])


def grouped(pairs: Iterable[tuple[Key, Any]]) -> dict[Key, list[Any]]:
    """Return the values of each key, in order."""
    found: dict[Key, list[Any]] = {}
    for key, own in pairs:
        found.setdefault(key, []).append(own)
    return found


# The colours of dims and kinds of time on a white ground, and the contrast of text on them. Each is told apart with each of the
# three colour blindnesses; the tests compute it. ``report.css`` has the dark ones.


class Colours(NamedTuple):
    """The colours of a choice that cuts one dim: its ground, the text on it, and the ANSI colour of its word."""

    ground: str
    text: str
    terminal: str


BLACK, WHITE, INK, MUTED, LINE, RULE = "#000000", "#ffffff", "#1b1f24", "#57606a", "#d8dee4", "#8c959f"
MIDDLE = 0.179
"""The luminance from which black has more contrast than white."""

TIMES = {"forward": "#7a91a6", "backward": "#52677a", "gradient": "#2b3a48", "update": "#0b0f13",
         "communication": "#c4472b"}  # fmt: skip

_NAMED = {"ink": INK, "muted": MUTED, "line": LINE, "rule": RULE, "ground": WHITE, **TIMES,
          "computes": TIMES["backward"], "receives": TIMES["communication"], "energy": "#bd8b13"}  # fmt: skip

_DIMS = {"batch": ("#bddaf3", "bright_blue"), "in_channels": ("#f0a02e", "yellow"), "out_channels": ("#8a3577", "magenta"),
         "height": ("#1f9e7a", "green"), "width": ("#f4e96a", "cyan"), "groups": ("#5c4636", "red"),
         "whole": (WHITE, "dim")}  # fmt: skip
_ATOMS = ("hidden", "heads", "ff", "vocab", "kv_heads", "head_dim", "group", "sequence", "experts", "slots", "types",
          "classes")  # fmt: skip
_ROLES = {READ: ("yellow", 0.09), CONTRACTED: ("yellow", 0.02), MADE: ("magenta", 0.86), "": ("green", 0.45)}


def colours_of(dim: str | None) -> Colours:
    """Return the colours of a dim; one that a model names has a hue by what an op does with it, and a shade of its own."""
    name = "in_channels" if dim == "channels" else dim or "whole"
    if name in _DIMS:
        ground, terminal = _DIMS[name]
    else:
        atom = atom_of(name)
        terminal, hue = _ROLES[name.removesuffix(atom)]
        shade = _ATOMS.index(atom) if atom in _ATOMS else sum(atom.encode()) % len(_ATOMS)
        lightness = 0.3 + 0.04 * ((6 + 5 * shade) % len(_ATOMS))
        shares = hls_to_rgb(hue + 0.04 * ((shade + 1) % 3 - 1), lightness, 0.4 + 0.25 * (shade % 2))
        ground = "#" + "".join(f"{round(255 * share):02x}" for share in shares)
    return Colours(ground, BLACK if _luminance(ground) > MIDDLE else WHITE, terminal)


def colour_of(name: str) -> str:
    """Return the colour of a name in a picture: of a phase, a dim, or with ``-t`` of the text on a dim."""
    colours = colours_of(name.removesuffix("-t"))
    return _NAMED.get(name) or (colours.text if name.endswith("-t") else colours.ground)


def _luminance(colour: str) -> float:
    # The relative luminance of WCAG 2.2, from 0 to 1.
    coded = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (own / 12.92 if own <= 0.04045 else ((own + 0.055) / 1.055) ** 2.4 for own in coded)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
