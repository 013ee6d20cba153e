"""Fragments of a program: what devices compute, hold and send each other of one layer, whatever its name.

A layer with choices (a weighted layer or a join; a pool where pools are planned) computes its own piece. Every other op
runs where the tensor that it reads lies. A piece of height and width has consecutive indices; samples and channels
are those that the device has already, as far as shares allow.

The backward pass has the transfers of the forward pass transposed: what was summed and scattered is gathered, and what was
read is summed. Devices that have read an element have a term of its error, and those that had the element get the sum; so it is
for each read, also for one that copied nothing. Several copies of one error are no terms: each is summed by itself, and where
none is a sum, who lacks the error takes the nearest copy.

A fragment follows from the layer's nest and layout, from what it reads, and from who reads it next; equal layers share theirs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.network.nodes import LayerOp
from hypar.ops.dims import KERNEL, READ, atom_of
from hypar.ops.nest import IN_GROUP, Nest, operand_name
from hypar.ops.windows import Window
from hypar.program.holding import Holding, Members, Transfer, by_content, divide, flattened, members, taps
from hypar.sharding.conventions import FUSED, MOVED
from hypar.sharding.layout import Copies, Layout, Numbers
from hypar.sharding.placement import partial_results

SPATIAL = ("height", "width")


class Source(NamedTuple):
    """A tensor as later layers find it: who has what of it, the layout after which they divide an image, and what makes it."""

    holding: Holding
    after: Layout
    trained: bool = False
    rests: bool = False


class Reader(NamedTuple):
    """The only planned layer that reads an output, the operand that it is, and who has what of what it reads besides if it joins these."""

    nest: Nest
    operand: str
    layout: Layout
    beside: tuple[Holding, ...]


held_by = by_content(Holding)
"""Returns one holding of equal members."""

_alike: Callable[[Layout], Layout] = by_content(lambda layout: layout)


@dataclass(frozen=True, eq=False)
class Fragment:
    """A layer on some devices.

    Attributes:
        nest: its op.
        layout: its layout; of a layer without choices that in which what it reads lies.
        chosen: whether it has choices.
        sources: what it reads.
        reader: the only planned layer that reads its output, through ops without choices.
        convention: what becomes of partial sums.
    """

    nest: Nest
    layout: Layout
    chosen: bool
    sources: tuple[Source, ...]
    reader: Reader | None
    convention: str

    @cached_property
    def trained(self) -> bool:
        """Whether its backward pass trains something."""
        return bool(self.nest.trained) or any(source.trained for source in self.sources)

    @property
    def rests(self) -> bool:
        """Whether it is a tensor at rest."""
        return self.chosen and self.nest.view

    @cached_property
    def source(self) -> Source:
        """Its output as later layers find it."""
        return Source(self.left[0], _alike(self.left[1]), self.trained, self.rests)

    # Forward

    @cached_property
    def dims(self) -> Mapping[str, Members]:
        """For each dim of the op the indices that each device computes; all of the network's input."""
        if not self.sources:
            places = self.layout.working.shape
            return {dim: np.ones((*places, size), bool) for dim, size in self.nest.sizes.items()}
        return self._divided() if self.chosen else self._followed()

    @cached_property
    def partial(self) -> Mapping[str, Members]:
        """The rows of its input of which each device adds up an average, where that needs those of several."""
        if self.nest.reduce != "mean" or self.chosen:
            return {}
        read, there = self.nest.inputs[0], self.sources[0].holding.members
        working = np.asarray(self.dims["batch"].any(axis=-1, keepdims=True))
        each = zip(read.axes, members(read, self.dims), there, strict=True)
        some = [own for own in each if own[0] in self.nest.reduced]
        return {axis: own & held for axis, own, held in some if (own & ~held & working).any()}

    @cached_property
    def needs(self) -> tuple[Holding, ...]:
        """What each device reads of each input."""
        if self.nest.view and not self.rests:
            return (self.sources[0].holding,)
        needs = [members(operand, self.dims) for operand in self.nest.inputs[: len(self.sources)]]
        if self.partial:
            axes = zip(self.nest.inputs[0].axes, needs[0], strict=True)
            needs[0] = tuple(self.partial.get(axis, own) for axis, own in axes)
        return tuple(map(held_by, needs))

    @cached_property
    def shards(self) -> tuple[Holding, ...]:
        """What each device needs of each input as frameworks hold it: with what no window reads between what one reads, or at an end."""
        each = zip(self.needs, _reads_of(self.nest), strict=False)
        return tuple(
            need if all(read.all() for read in reads) else held_by(tuple(map(filled, need.members, reads)))
            for need, reads in each
        )

    @cached_property
    def output(self) -> Holding:
        """What each device computes of the output."""
        return held_by(members(self.nest.result, self.dims))

    @cached_property
    def copies(self) -> Copies:
        """Whose terms are summed together, where the op leaves terms."""
        layout = self.layout
        if self.rests:
            # Who has an element of a tensor at rest has a term of its error.
            return layout.copies()
        left = {*layout.dims} - self.nest.reduced
        terms = self.dims if self.chosen else layout.dims if self.partial else left
        return layout.copies(tuple(sorted(terms)))

    @cached_property
    def left(self) -> tuple[Holding, Layout]:
        """Who gets the sums of F_out, and the layout in which they lie: by ``fused`` as the only reader divides them."""
        nest, layout, reader = self.nest, self.layout, self.reader if self.convention == FUSED else None
        behind = nest.result.dims if self.chosen else {*layout.dims} - nest.reduced
        after = layout.of({dim: dim for dim in behind})
        terms = {dim for dim in layout.dims if "output" in partial_results(nest, dim)}
        if not (nest.multiplies and reader and terms and (layout.working & reader.layout.working).any()):
            return self.output, after
        read_as = _ungrouped(reader.nest.names.get(reader.operand, {}))
        read_as.pop("groups", None)
        after = layout.scattered(reader.layout, _ungrouped(nest.names["output"]), read_as, terms)
        left = [
            divide(own.shape[-1], after, dim, () if dim in SPATIAL else (own,))
            for dim, own in zip(nest.result.axes, self.output.members, strict=True)
        ]
        return held_by(tuple(left)), after

    def _divided(self) -> dict[str, Members]:
        """Return the indices of each loop dim that each device computes: of its inputs those that it has, if shares allow."""
        nest, made = self.nest, [own.holding.members for own in self.sources]
        held: dict[str, tuple[Members, ...]] = {}
        for operand, own in zip(nest.inputs, made, strict=True):
            for (axis, (_, dims, window, *_)), there in zip(operand.axes.items(), own, strict=True):
                if len(dims) == 1 and (nest.multiplies or axis not in SPATIAL):
                    held[dims[0]] = (*held.get(dims[0], ()), there)
                elif window is not None and axis not in nest.windows:
                    held[dims[0]] = (*held.get(dims[0], ()), _reached(window, there, nest.sizes[dims[0]]))
        # Where all devices have all samples, they take those that they have of what a join reads beside the output.
        beside = self.reader.beside if self.reader and nest.multiplies else ()
        if beside and all(own.all() for own in held.get("batch", ())):
            held["batch"] = tuple([own.members[0] for own in beside])
        if nest.concatenates:
            held.pop("channels", None)
        sizes = {dim: size for dim, size in nest.sizes.items() if not dim.startswith(KERNEL)}
        found = {dim: divide(size, self.layout, dim, held.get(dim, ())) for dim, size in sizes.items()}
        if nest.concatenates:
            parts = [divide(own[1].shape[-1], self.layout, "channels", own[1:2]) for own in made]
            places = np.broadcast_shapes(*[own.shape[:-1] for own in parts])
            each = [np.broadcast_to(own, (*places, own.shape[-1])) for own in parts]
            found["channels"] = np.concatenate(each, axis=-1)
        return found

    def _followed(self) -> dict[str, Members]:
        """Return the indices of each output dim that each device computes of an op without choices: those that it has."""
        held, nest = self.sources[0].holding.members, self.nest
        if nest.view:
            return {"batch": held[0], "channels": flattened(held[1:])}
        found, windows = {"batch": held[0]}, nest.inputs[0].windows
        for (dim, own_axis), own in zip(list(nest.result.axes.items())[1:], held[1:], strict=False):
            size = own_axis.size
            if dim in nest.reduced:
                found[dim] = np.repeat(self.layout.working[..., None], size, axis=-1)
            elif dim in {*SPATIAL, "depth"} and dim in windows:
                found[dim] = divide(size, self.layout, dim)
            elif dim in windows and size != own.shape[-1]:
                found[dim] = _in_place(windows[dim], own, size)
            else:
                found[dim] = own
        return found

    # Transfers

    @cached_property
    def reads(self) -> tuple[Transfer, ...]:
        """How each input comes to the devices that read it."""
        pairs = zip(self.sources, self.needs, strict=True)
        return tuple(Transfer("copy", own.holding, need) for own, need in pairs)

    @cached_property
    def gathers(self) -> tuple[bool, ...]:
        """Whether it has choices by which devices read half as much again of each input as lies on them, or more: that is a shard."""
        return tuple(
            self.chosen
            and own.moves
            and own.have.meets(own.need)
            and 2 * own.need.elements.mean() > 3 * own.have.elements.mean()
            for own in self.reads
        )

    @cached_property
    def summed(self) -> Transfer | None:
        """How the terms of the output are added up; None where there are none."""
        return self.adding(self.output, self.left[0]) if self.nest.multiplies or self.partial else None

    @cached_property
    def gathered(self) -> Transfer | None:
        """How the error of the sums comes to those who have made terms; None where sums lie as they are made."""
        there = self.left[0].content == self.output.content
        return None if there else Transfer("copy", self.left[0], self.output)

    @cached_property
    def returned(self) -> tuple[tuple[Transfer, ...], ...]:
        """How the terms of each input's error come to those who have what is read of it.

        By ``moved``, and where no device has both ends, the sums come to devices that have terms first, and are then copied.
        """
        each = zip(self.sources, self.needs, _reads_of(self.nest), strict=False)
        return tuple([self._returned(*own) if own[0].trained else () for own in each])

    def _returned(self, source: Source, read: Holding, all_read: tuple[Members, ...]) -> tuple[Transfer, ...]:
        have = source.holding
        need = held_by(tuple(map(np.logical_and, have.members, all_read)))
        if source.rests:
            return (replace(self.adding(read, need), kind="return"),)
        if self.convention == MOVED or not have.meets(read):
            sums = read.one_each(have)
            return self.adding(read, sums), Transfer("copy", sums, need)
        added = self.adding(read, need)
        return (added if added.terms else Transfer("copy", read, need),)

    def gradient(self, name: str) -> Transfer:
        """Return how the terms of the gradient of a trained tensor are added up, for all who hold it; a bias lies with the sums."""
        nest, operand, places = self.nest, self.nest.trained[name], [1] * self.layout.working.ndim
        whole = {dim: np.ones((*places, size), bool) for dim, size in nest.sizes.items()}
        have = need = Holding(members(operand, {**whole, **self.dims}))
        if nest.weight and name == "bias":
            lie = dict(zip(nest.result.axes, self.left[0].members, strict=True))
            pairs = zip(operand.axes, have.members, strict=True)
            need = Holding(tuple([own | lie.get(axis, own) for axis, own in pairs]))
        dims = tuple(dim for dim in self.dims if name == "weight" or not dim.startswith(READ))
        return self.adding(have, need, self.layout.copies(dims))

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """All transfers of its activations and errors that move something."""
        own = (self.summed, self.gathered) if self.sources else ()
        every = (*self.reads, *own, *chain.from_iterable(self.returned))
        return tuple(each for each in every if each is not None and each.moves)

    @cached_property
    def amounts(self) -> tuple[NDArray[Any], ...]:
        """What devices have of its tensors, where these have unlike amounts."""
        holdings = (self.output, *self.shards, *(own.need for own in self.transfers))
        channels = [self.channels] if self.nest.saved.statistics else []
        return tuple(own for own in (*(one.elements for one in holdings), *channels) if own.size > 1)

    @cached_property
    def channels(self) -> NDArray[np.float64]:
        """The fraction of its channels that each device has, ``[*devices]``."""
        own = dict(zip(self.nest.result.axes, self.output.members, strict=True))["channels"]
        return np.asarray(own.mean(axis=-1))

    def adding(self, have: Holding, need: Holding, copies: Copies | None = None) -> Transfer:
        """Return how terms are added up, of which devices have the copies of its output's terms, or others."""
        of = self.copies if copies is None else copies
        terms, devices = have.on(of.number >= 0), self.layout.places.devices
        each = np.broadcast_arrays(terms.elements, of.number)[0]
        dims = zip(*terms.each, strict=True)
        rows = ([own.reshape(-1, own.shape[-1]).any(axis=0) for own in dim] for dim in dims)
        whole = math.prod(int(np.any(own, axis=0).sum()) for own in rows)
        # If no two devices of a copy have terms of an element, those of a copy have as many as there are in all.
        several = int(each.sum()) * (devices // each.size) > (int(of.number.max()) + 1) * whole
        return Transfer("add", have, need, of, several)


fragment_of = lru_cache(maxsize=1024)(Fragment)
"""Return one fragment for equal ones."""


def following(
    ops: Sequence[LayerOp],
    layouts: Mapping[str, Layout],
    whole: Layout,
    convention: str,
    *,
    sent: Collection[str] = (),
) -> dict[str, Fragment]:
    """Return the fragments of layers in order, by name, from the layouts of those that have choices.

    Other layers make what these read besides, and read the output of those in ``sent``; nothing divides ``whole``.
    """
    found, readers = dict[str, Fragment](), _next_choices(ops, layouts, sent)
    for op in ops:
        names = zip(op.inputs, op.nest.inputs, strict=False)
        each = [found[name].source if name in found else _elsewhere(own.shape, whole) for name, own in names]
        sources = tuple(each)
        by, chosen = None, op.name in layouts
        if op.name in readers:
            reader, operand = readers[op.name]
            joins = not (reader.nest.multiplies or reader.nest.view)
            beside = [found[name].source.holding for name in reader.inputs if joins and name in found]
            by = Reader(reader.nest, operand, layouts[reader.name], tuple(beside))
        layout = layouts[op.name] if chosen else sources[0].after if sources else whole
        found[op.name] = fragment_of(op.nest, layout, chosen, sources, by, convention)
    return found


def _next_choices(
    ops: Sequence[LayerOp], layouts: Container[str], sent: Collection[str]
) -> dict[str, tuple[LayerOp, str]]:
    """Return the only planned layer that reads an output, through ops without choices, and the operand that it is; by layer."""
    readers = Counter([*(name for op in ops for name in op.inputs), *sent])
    found: dict[str, tuple[LayerOp, str]] = {}
    for op in reversed(ops):
        for number, name in enumerate(op.inputs):
            if readers[name] == 1 and op.name in layouts:
                found[name] = op, operand_name(number if op.nest.others else 0)
            elif readers[name] == 1 and op.name in found:
                found[name] = found[op.name]
    return found


@lru_cache(maxsize=1024)
def _elsewhere(shape: tuple[int, ...], whole: Layout) -> Source:
    places = [1] * whole.working.ndim
    return Source(held_by(tuple(np.zeros((*places, size), bool) for size in shape)), whole, trained=True)


@lru_cache(maxsize=4096)
def _reads_of(nest: Nest) -> tuple[tuple[Members, ...], ...]:
    """Return the indices of each axis of its inputs that an op reads at all."""
    if nest.view:
        return (tuple(np.ones(own.size, bool) for own in nest.inputs[0].axes.values()),)
    dims = {dim: np.ones(size, bool) for dim, size in nest.sizes.items()}
    return tuple(members(operand, dims) for operand in nest.inputs)


def filled(own: Members, read: Members) -> Members:
    """Return the indices from the first to the last that each device reads; all where it reads all that is read at all."""
    before, behind = (np.logical_or.accumulate(each, axis=-1) for each in (own, own[..., ::-1]))
    return np.asarray((before & behind[..., ::-1]) | (own == read).all(axis=-1, keepdims=True))


def _reached(window: Window, held: Members, size: int) -> Members:
    """Return the outputs, ``[*devices, size]``, of which devices hold something, ``[*devices, inputs]``, that windows read."""
    read = taps(window, size, held.shape[-1])
    return np.asarray((held[..., read] & (read >= 0)).any(axis=-1))


def _in_place(window: Window, held: Members, size: int) -> Members:
    """Return the outputs that devices compute where they hold what is read, as ``_reached`` by a window of one element.

    An output that reads nothing goes with the next one.
    """
    reading = np.flatnonzero((taps(window, size, held.shape[-1]) >= 0).any(axis=1))
    nearest = np.abs(np.arange(size)[:, None] - reading).argmin(axis=1)
    return np.asarray(_reached(window, held, size)[..., reading[nearest]])


def _ungrouped(names: Mapping[str, str]) -> dict[str, str]:
    """Return the tensor's names for op dims, those of the channels of a group as channels."""
    return {dim: "channels" if axis == IN_GROUP else axis for dim, axis in names.items()}


@lru_cache(maxsize=512)
def gradient_of(users: tuple[Fragment, ...], *, tied: bool = False) -> Transfer:
    """Return how the terms of the gradient of a weight are added up, for all who hold it, of the layers that use it, its own first.

    Of one that is ``tied`` to others, as several users are to each other, all copies have terms of one sum.
    """
    each = [own.gradient("weight") for own in users]
    if len(each) == 1 and not tied:
        return each[0]
    axes = [[atom_of(dim) for dim in own.nest.weight] for own in users]
    boxes = zip([own.have.members for own in each], axes, strict=True)
    first, *more = (tuple([box[own.index(axis)] for axis in axes[0]]) for box, own in boxes)
    have, alone = Holding(first, tuple(more)), reduce(np.maximum, (own.copies.number for own in each))
    return users[0].adding(have, have, users[0].layout.copies()._replace(number=np.minimum(alone, 0)))


def gathered_again(
    name: str, inputs: Sequence[str], fragments: Mapping[str, Fragment], shards: Container[str]
) -> Iterator[tuple[int, str, int]]:
    """Yield the inputs of a layer that are gathered again for its backward phase, where devices keep shards for some layers.

    Each by its number, the layer for which it is gathered, which may be the tensor at rest that it is, and its number there.
    """
    if name in shards and fragments[name].nest.saved.input:
        for at, (source, own) in enumerate(zip(inputs, fragments[name].reads, strict=True)):
            rests = source in fragments and fragments[source].rests and not own.moves
            reader, number = (source, 0) if rests else (name, at)
            if reader in shards and fragments[reader].gathers[number]:
                yield at, reader, number


@dataclass(frozen=True, eq=False)
class Rest:
    """A weight whose pieces rest in shares of an axis.

    Attributes:
        gradient: how the terms of its gradient are added up for all who hold it.
        number: the share of each device, ``[*devices]``.
        count: the shares of a piece.
        axis: the axis that is shared.
        even: whether all devices work, none in copies, and have equal shares, so that each transfer is half of one that adds up terms for all.
    """

    gradient: Transfer
    number: Numbers
    count: int
    axis: int
    even: bool

    @cached_property
    def holding(self) -> Holding:
        """Who has which share."""
        members = [*self.gradient.need.members]
        place = np.cumsum(members[self.axis], axis=-1)
        size = np.maximum(place[..., -1:], 1)
        members[self.axis] = members[self.axis] & ((place - 1) * self.count // size == self.number[..., None])
        return Holding(tuple(members))

    @cached_property
    def summed(self) -> Transfer:
        """How the terms of its gradient come to those who rest it."""
        return replace(self.gradient, need=self.holding)

    @cached_property
    def gathered(self) -> Transfer:
        """How it is gathered."""
        return Transfer("copy", self.holding, Holding(self.gradient.need.members))


@lru_cache(maxsize=512)
def rest_of(users: tuple[Fragment, ...]) -> Rest | None:
    """Return how a weight rests that devices share among those whose terms of its gradient are added up; None where none do.

    They share an axis that they divide evenly, or the longest. A weight that several layers use rests so where none divides it.
    """
    each = [own.layout.ranks(own.nest.weight) for own in users]
    number, count = each[0]
    alike = all(
        others == round(own.layout.working.mean() * own.layout.places.devices)
        and (own.layout.working == users[0].layout.working).all()
        for own, (_, others) in zip(users, each, strict=True)
    )
    if count == 1 or not (alike or len(users) == 1):
        return None
    gradient = gradient_of(users)
    sizes = [own.sum(axis=-1) for own in gradient.need.members]
    even = (axis for axis, own in enumerate(sizes) if not (own % count).any())
    axis = next(even, max(range(len(sizes)), key=lambda at: int(sizes[at].max())))
    alone = len(users) == 1 and bool(users[0].layout.working.all()) and not gradient.copies.number.any()
    return Rest(gradient, number, count, axis, alone and not (sizes[axis] % count).any())
