"""A space: the choices that a search may pick from.

A space lists dims, ``batch,in_channels``, each of which may be divided over all devices of a group. Dims joined by
``*``, ``batch*height*width``, may be divided at once, each by its own degree. ``conv:batch linear:in_channels``
names dims for each kind of op; ``all`` is all of them at once. Degrees are the powers of two that divide the ways,
and the ways themselves; with the word ``divisors`` all divisors. Of equally good choices the one whose dim comes
first wins.

Over all levels no dim is in more shards than it has elements. Where nothing of a layer can be divided further a level computes
it in copies, whatever the space. Papers may divide further: then a device has a part of an element.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

from hypar.errors import OptionError, shown
from hypar.network.nodes import PlanNode
from hypar.ops.dims import CUTTABLE, MADE, READ, atom_of
from hypar.sharding.dims import BATCH, EXPERT, OF_FIELD, TENSOR, WHOLE_WORD, dim_of
from hypar.sharding.placement import COPIES, TINY, WHOLE, Choice, Options, copies, cut, grid, numbered

LONGEST_TEXT = 10_000
"""Most characters of a space."""

MOST_CHOICES = 4096
"""Most choices of one layer at one level."""

MOST_GRIDS = 2**16
"""Most grids of some dims, those with idle devices too."""

Sizes = tuple[tuple[str, float], ...]
"""Dims, each with the most shards that it may be in."""

Alternatives = tuple[tuple[str, ...], ...]
"""Dims that may be divided, of which those that may be divided at once are together."""


@dataclass(frozen=True, slots=True)
class Space:
    """The dims that may be divided.

    Attributes:
        text: the space as given.
        dims: all dims, in order of preference; an op without a weight may use any of them.
        by_op: dims for ops that have their own; for the other ops, of no name, those named without an op, or all if there are none.
        divisors: whether every divisor of the ways is a degree.
        every: whether all dims that a model names may be divided too, at once with those of ``all``.
        beyond: whether dims may be in more shards than they have elements, as some papers count.
        microbatches: parts of the batch, of which a device has one at a time.
        inner: the space of the levels inside a node; None if it is the same.
    """

    text: str
    dims: tuple[str, ...]
    by_op: dict[str, Alternatives]
    divisors: bool = False
    every: bool = False
    beyond: bool = False
    microbatches: int = 1
    inner: Space | None = None

    @property
    def grids(self) -> bool:
        """Whether several dims may be divided at once."""
        return any(len(one) > 1 for named in self.by_op.values() for one in named)

    @property
    def whole_grids(self) -> bool:
        """Whether every op has one grid of dims, so that each part of a level offers what the level does."""
        return self.grids and all(len(named) == 1 for named in self.by_op.values())

    def choices(self, layer: PlanNode, ways: int, *, idle: bool = False) -> Options:
        """Return the choices of a layer at a level.

        Dims of one element are left out if the layer has others, and so are degrees above the size of their dim in
        grids. A grouped convolution may be cut between its groups if channels may be cut. An op without a weight
        may be cut along any dim of the space, or be computed whole by every device; in a space of grids the
        latter only if the space cuts ``in_channels`` or has no dim of the op, and in one of alternatives only by ``rep``.

        Args:
            layer: the layer.
            ways: devices of a group.
            idle: whether grids may leave some devices idle.

        Raises:
            OptionError: the space has no dim of the layer, or too many choices.
        """
        sizes, (single, several) = layer.nest.sizes, self._alternatives(layer)
        found = [cut(dim, ways) for dim in single]
        for dims in several:
            limits = tuple((dim, min(sizes[dim], ways)) for dim in dims)
            found += _grids(limits, self._degrees(ways), ways, idle, self.text)
        free = not self.grids and (layer.rest or not any("|" in dim for dim in self.dims))
        kept = free or bool({"in_channels", "channels"} & {*self.dims})
        whole = (kept and not layer.nest.multiplies) or not found
        return tuple(dict.fromkeys((*found, WHOLE) if whole else found))

    def that_run(self, layer: PlanNode, options: Options) -> Options:
        """Return the options of a layer at a level that can run, or the whole layer in copies if none can."""
        if self.beyond:
            return options
        sizes = self.sizes(layer, dict.fromkeys(dim for own in options for dim in own.divided))
        return tuple(own for own in options if runs(sizes, [own])) or (WHOLE,)

    def sizes(self, layer: PlanNode, dims: Iterable[str]) -> Sizes:
        """Return some dims of a layer with the elements that are computed at a time; a share of one element is one shard."""
        parts = {BATCH: self.microbatches}
        return tuple([(dim, max(1, layer.nest.sizes[dim] / parts.get(dim, 1))) for dim in dims])

    def in_copies(self, layer: PlanNode, ways: int) -> Options:
        """Return the choices of a level that divide one dim by less than its ways, in copies; the last one divides none."""
        single, several = self._alternatives(layer)
        dims = dict.fromkeys((*single, *(dim for named in several for dim in named)))
        less = self._degrees(ways)[-2:0:-1]
        return (*[numbered([(dim, own), (COPIES, ways // own)]) for own in less for dim in dims], WHOLE)

    def left_out(self, layer: PlanNode, ways: int) -> tuple[str, ...]:
        """Return why degrees of the space are missing for a layer, one line per dim.

        Examples:
            >>> from hypar import load_model
            >>> pool5 = load_model("alexnet").operators.layers[7]
            >>> parse_space("batch*height*width").left_out(pool5, 16)
            ('height: 6 elements, so no degree of 8, 16', 'width: 6 elements, so no degree of 8, 16')
        """
        sizes, (_, several) = layer.nest.sizes, self._alternatives(layer)
        lines = []
        for dim in dict.fromkeys(dim for dims in several for dim in dims):
            above = ", ".join(str(degree) for degree in self._degrees(ways) if degree > sizes[dim])
            if above:
                lines.append(f"{dim}: {sizes[dim]} element{'s' * (sizes[dim] > 1)}, so no degree of {above}")
        return tuple(lines)

    def _alternatives(self, layer: PlanNode) -> tuple[Sequence[str], Alternatives]:
        """Return the dims of a layer that may be divided over all ways, and those that may be divided at once."""
        sizes, named = layer.nest.sizes, self.by_op.get(layer.op_name, self.by_op[""])
        if not layer.weighted and layer.op_name not in self.by_op:
            named = (self.dims,) if self.grids else tuple((dim,) for dim in self.dims)
        several = [self._of(layer, dims, every=self.every) for dims in named if len(dims) > 1]
        single = self._of(layer, [dim for dims in named if len(dims) == 1 for dim in dims])
        leaves = not layer.weighted and any(WHOLE_WORD in dim.split("|") for dim in self.dims)
        if layer.nest.multiplies and not single and not any(several) and not leaves:
            allowed = ", ".join(layer.nest.cuttable)
            raise OptionError(f"space {self.text!r}", f"no dim of {layer.op_name} {layer.name!r}", allowed)
        large = [dim for dim in single if sizes[dim] > 1] or single
        return large, tuple(dims for dims in several if dims)

    @staticmethod
    def _of(layer: PlanNode, words: Sequence[str], *, every: bool = False) -> tuple[str, ...]:
        """Return the dims of a layer that some words of a space name; channels name groups and a join's channels too."""
        extra = "groups" if layer.weighted else "channels"
        more = [extra] if {"in_channels", "out_channels"} & {*words} else []
        found = [dim for word in (*words, *more) for dim in dims_named(layer, word)]
        named = [dim for dim in layer.nest.cuttable if every and dim not in CUTTABLE]
        return tuple(dict.fromkeys((*found, *named)))

    def _degrees(self, ways: int) -> tuple[int, ...]:
        divisors = (degree for degree in range(1, ways + 1) if ways % degree == 0)
        return tuple(d for d in divisors if self.divisors or d in {ways, d & -d})


def shards_left(sizes: Sizes, chosen: Iterable[Choice]) -> Sizes:
    """Return how many shards of each dim may be made beside those of some choices at other levels."""
    every = [*chosen]
    return tuple([(dim, most / math.prod([own.degree(dim) for own in every])) for dim, most in sizes])


def runs(sizes: Sizes, chosen: Iterable[Choice]) -> bool:
    """Return whether choices at some levels make no more shards of a dim than there may be."""
    return all(left > 1 - TINY for _, left in shards_left(sizes, chosen))


@lru_cache(maxsize=2**14)
def fitting(
    options: tuple[Options, ...], array: tuple[int, ...], sizes: Sizes, *, divides: bool
) -> NDArray[np.bool_]:
    """Return which tuples of a choice at each level can run, ``[tuples]`` in lexicographic order.

    No dim is in more shards than it has elements. If a layer ``divides`` what it can, no level computes it in more copies than
    the best of its options does beside the choices of the others.

    Examples:
        >>> fitting(((cut("batch", 2), WHOLE),) * 2, (2, 2), (("batch", 2),), divides=True).tolist()
        [False, True, True, False]
    """
    degrees = [np.array([[choice.degree(dim) for dim, _ in sizes] for choice in own]) for own in options]
    most = np.array([size for _, size in sizes]) * (1 + TINY)
    shards = reduce(lambda outer, own: outer[..., None, :] * own, degrees)
    found = few = np.all(shards <= most, axis=-1)
    for at, (own, ways) in enumerate(zip(options if divides else (), array, strict=False)):
        number = np.expand_dims([copies(choice, ways) for choice in own], [*range(1, few.ndim - at)])
        found = found & (number == np.where(few, number, ways + 1).min(axis=at, keepdims=True))
    return np.asarray(found.reshape(-1))


def dims_named(layer: PlanNode, word: str) -> tuple[str, ...]:
    """Return the dims of a layer that a word stands for: one of its own dims, or those whose name in tensors it is.

    In a layer of named dims ``in_channels`` are those that its weight contracts, ``out_channels`` those that it makes, and
    ``channels`` of an op without a weight are those that some weight of the network has.
    """
    nest = layer.nest
    if "|" in word:
        each = (own for own in word.split("|") if own != WHOLE_WORD or not layer.weighted)
        found = ((own, dims_named(layer, own)) for own in each)
        return next((dims for own, dims in found if dims or own == WHOLE_WORD), ())
    if word in {TENSOR, EXPERT}:
        return layer.tensor if word == TENSOR else tuple(dim for dim in nest.cuttable if dim == "experts")
    if word in nest.sizes:
        return () if word in nest.whole else (word,)
    if not nest.unsized.extra:
        return ()
    if word == "channels":
        return layer.channels
    prefix = {"in_channels": READ, "out_channels": MADE}.get(word)
    return tuple(dim for dim in nest.cuttable if (dim.startswith(prefix) if prefix else atom_of(dim) == word))


@lru_cache(maxsize=1024)
def _grids(
    limits: tuple[tuple[str, int], ...], degrees: tuple[int, ...], ways: int, idle: bool, text: str
) -> Options:
    """Return every grid, those of most devices first, then by the first dims; without idle devices only those of most devices."""
    found: list[tuple[int, ...]] = [()]
    for _, limit in limits:
        fitting = [degree for degree in degrees if degree <= max(1, limit)]
        found = [
            (*own, degree) for own in found for degree in fitting if not ways % (math.prod(own) * degree)
        ]
        if len(found) > MOST_GRIDS:
            found_text = f"more than {MOST_GRIDS:,} grids of {ways} ways"
            raise OptionError(f"space {text!r}", found_text, "fewer dims, or levels of fewer ways")
    most = max(map(math.prod, found))
    kept = [own for own in found if idle or math.prod(own) == most]
    if len(kept) > MOST_CHOICES:
        found_text = f"more than {MOST_CHOICES:,} choices of a level of {ways} ways"
        raise OptionError(f"space {text!r}", found_text, "fewer dims, or levels of fewer ways")
    kept.sort(key=lambda own: (math.prod(own), own), reverse=True)
    return tuple(grid(dict(zip(dict(limits), own, strict=True))) for own in kept)


def parse_space(text: str, named: Collection[str] | None = ()) -> Space:
    """Read a space, given the dims that the model names; None if any name may be one of them, as it is not known yet.

    Raises:
        OptionError: a word is no dim, or the text names none.

    Examples:
        >>> parse_space("conv:batch linear:in_channels").by_op
        {'': (('batch',), ('in_channels',)), 'conv': (('batch',),), 'linear': (('in_channels',),)}
    """
    if len(text) > LONGEST_TEXT:
        size = f"found {len(text):,} characters"
        raise OptionError(f"space {shown(text)}", size, f"at most {LONGEST_TEXT:,}")
    place = f"space {text!r}"
    outer, slash, inner = text.partition(" / ")
    if slash:
        own = parse_space(inner, named)
        return replace(parse_space(outer, named), text=" ".join(text.split()), inner=own)
    by_op: dict[str, Alternatives] = {}
    words = text.split()
    for word in words:
        op, colon, listed = word.rpartition(":")
        if word == "divisors":
            continue
        texts = ["*".join(CUTTABLE[:5])] if listed == "all" else listed.split(",")
        found = tuple(dict.fromkeys(_at_once(one, place, named) for one in texts if one))
        if colon and (not op or op in by_op):
            wrong = f"op {op!r} given twice" if op else f"no op before {word!r}"
            raise OptionError(place, wrong, "OP:dims, once")
        by_op[op] = tuple(dict.fromkeys((*by_op.get(op, ()), *found)))
    every = tuple(dict.fromkeys(one for found in by_op.values() for one in found))
    dims = tuple(dict.fromkeys(dim for one in every for dim in one))
    if not dims:
        raise OptionError(place, "names no dim", ", ".join(CUTTABLE))
    whole = any(word.rpartition(":")[2] == "all" for word in words)
    return Space(" ".join(words), dims, {"": every, **by_op}, "divisors" in words, whole)


def _at_once(word: str, place: str, named: Collection[str] | None) -> tuple[str, ...]:
    found: list[str] = []
    for part in word.split("*"):
        # Words of practice may be of no layer of a network.
        each = ((one, None if one in OF_FIELD else named) for one in part.split("|"))
        dims = [dim_of(one, place, known) or WHOLE_WORD for one, known in each]
        if dims == [WHOLE_WORD]:
            raise OptionError(place, f"found {part!r}", ", ".join(CUTTABLE))
        if (dim := "|".join(dims)) in found:
            raise OptionError(place, f"found {word!r}", "each dim once")
        found.append(dim)
    return tuple(found)
