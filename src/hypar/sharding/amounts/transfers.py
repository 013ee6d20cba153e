"""The transfers of a network, whatever the choices: the sums inside each layer, and those of each tensor, or image, between two.

``parts_of`` is the table of what each transfer counts, in products of factors; ``network_of`` says which of its rows run by each
convention. A factor is the fraction of a tensor that all devices of a group have together: an array over options of the producer,
tuples of the consumer above the level, and options of the consumer. An axis along which it does not vary has one entry.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from hypar.errors import OptionError
from hypar.network.nodes import PlanGraph, PlanNode, Tensor, kept_with_graph
from hypar.ops.dims import atom_of
from hypar.ops.nest import IN_GROUP, Nest
from hypar.ops.windows import Window
from hypar.sharding.conventions import CONVENTIONS, DIRECT, FUSED, PAPER
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import Numbers
from hypar.solve.edge import Costs

EVERY_ROW = Window(kernel=1)
"""The window of a place that reads its own row."""


class Rows(NamedTuple):
    """A dim of an image between two layers: the producer's outputs, which are inputs of the consumer's window, and its outputs.

    The consumer ``adds`` up the error, or its terms go to the producer.
    """

    window: Window
    size: int
    places: int
    made: int = 0
    adds: bool = True

    @property
    def read(self) -> int:
        """The number of rows that windows read."""
        return int(np.count_nonzero(before(self)[-1]))


Image = tuple[tuple[str, Rows], ...]
"""The dims of an image, by their names in the tensor."""


@lru_cache(maxsize=4096)
def image_of(
    nest: Nest,
    operand: str,
    shape: Iterable[tuple[str, float]],
    made: Nest | None = None,
    *,
    adds: bool = True,
) -> Image:
    """Return the image that a layer reads; of a device group, whose sizes may be real numbers, the next whole one."""
    reads = {dim: op for op, dim in nest.names[operand].items()}
    found = []
    for dim, size in shape:
        window = nest.windows.get(reads.get(dim, "")) if operand == "input" else None
        places = size if window is None else nest.sizes[reads[dim]]
        if dim in SPATIAL:
            before = round(made.sizes.get(dim, size)) if made else 0
            found.append((dim, Rows(window or EVERY_ROW, round(size), max(1, round(places)), before, adds)))
    return tuple(found)


@lru_cache(maxsize=4096)
def fraction_read(image: Image) -> float:
    """Return the fraction of an image that windows read: below 1 if their stride leaves gaps, or rows at the end."""
    return math.prod(rows.read / rows.size for _, rows in image)


@lru_cache(maxsize=1024)
def before(rows: Rows) -> Numbers:
    """Return how many of the places before each one read each row, ``[places + 1, 1 + rows]``; the first column is of no row."""
    taps = rows.window.taps(rows.size, np.arange(rows.places))
    found = np.zeros((rows.places + 1, rows.size + 1), np.int32)
    place, tap = np.nonzero(taps >= 0)
    found[place + 1, taps[place, tap] + 1] = 1
    return found.cumsum(axis=0, dtype=np.int32)


class Between(NamedTuple):
    """A tensor between two layers, without sizes.

    Attributes:
        made: the producer's dims.
        read: the consumer's dims.
        dims: the dims of the tensor as the consumer reads it.
        contracted: the producer's dims that ops on the way sum.
        onward: whether the producer's sums go straight to the consumer.
        apart: whether each level is counted by itself.
        operand: the consumer's tensor that it is; ``weight`` for one that both layers use.
        borders: where each level is counted by itself the consumer's dims of which neighbouring shards read the same rows, and
            the fraction of F_in that two of them share.
    """

    made: Nest
    read: Nest
    dims: tuple[str, ...]
    contracted: frozenset[str]
    onward: bool = False
    apart: bool = False
    operand: str = "input"
    borders: tuple[tuple[str, float], ...] = ()

    @property
    def makes(self) -> Mapping[str, str]:
        """The producer's dims with their names in the tensor."""
        return dims_of(self.made, "weight" if self.operand == "weight" else "output")


def dims_of(nest: Nest, tensor: str) -> Mapping[str, str]:
    """Return the loop dims of a tensor with its own names; those of a weight are named as in other layers that use it."""
    return {dim: atom_of(dim) for dim in nest.weight} if tensor == "weight" else nest.names[tensor]


class Change(NamedTuple):
    """Elements that enter groups: a tensor's elements times the products of one factor, without those of another.

    Attributes:
        elements: elements of the tensor.
        gets: name of the factor that counts what is needed in the end.
        has: name of the factor that counts what is there already; empty for one copy.
        above: where a level is counted by itself, name of the factor whose product counts both above it; empty where each
            factor has its own.
    """

    elements: float
    gets: str
    has: str = ""
    above: str = ""


class Part(NamedTuple):
    """A transfer of a tensor between two layers.

    Attributes:
        phase: the phase.
        tensor: ``input`` of the consumer, or ``output`` of the producer; ``weight`` of both.
        manner: what gives it its collectives: ``forward``, ``backward``, ``sums`` of the producer, or ``errors`` in terms.
        changes: the elements that are received.
    """

    phase: str
    tensor: str
    manner: str
    changes: tuple[Change, ...]

    @property
    def forward(self) -> bool:
        """Whether the consumer receives; otherwise the producer does."""
        return self.manner == "forward"

    @property
    def inside(self) -> bool:
        """Whether it adds up partial sums of the producer, which belong to the layer."""
        return self.tensor == "weight" or (self.manner == "sums" and self.tensor == "output")


class Factors(NamedTuple):
    """The factors of one level.

    Attributes:
        need: fraction that the consumer reads; also that of E_in of which it has terms.
        kept: fraction of F and E at the places between: the producer's, once its sums are everywhere, or the consumer's where
            sums go straight there.
        both: fraction that devices need as F and hold already.
        back: fraction that they need as E and hold already.
        owned: fraction at one owner of each element of E, of which it has a term; as ``back`` where it is added up inside.
        alone: the part of ``kept`` that has no terms of the sums that ops between the layers take.
        terms: fraction of the producer's F_out of which it has terms, before the ops between; also that of E_out.
        left: fraction of F_out at the places to which its sums go.
        placed: fraction of F_out of which one of these places has a term.
        met: fraction at the places that have terms of it.
        added: fraction of E_in of which the consumer adds up the terms.
    """

    need: Costs
    kept: Costs
    both: Costs
    back: Costs
    owned: Costs
    alone: Costs
    terms: Costs
    left: Costs
    placed: Costs
    met: Costs
    added: Costs


SHARED = ("both", "back", "owned")
"""Those that count what devices have for both ends."""


def mapped(
    function: Callable[..., Any], *factors: Factors, names: Iterable[str] = Factors._fields
) -> Factors:
    """Return a function of some factors of one or several records; those that are made of the same objects are one object."""
    found: dict[tuple[int, ...], Any] = {}
    chosen = {}
    for name in names:
        own = [getattr(each, name) for each in factors]
        key = tuple(map(id, own))
        if key not in found:
            found[key] = function(*own)
        chosen[name] = found[key]
    return factors[0]._replace(**chosen)


@lru_cache(maxsize=4096)
def names_at(between: Between) -> tuple[tuple[str | None, str | None], ...]:
    """Return the op dims of producer and consumer for each dim of the tensor."""
    makes = {tensor: op for op, tensor in between.makes.items() if tensor not in between.contracted}
    reads = {tensor: op for op, tensor in dims_of(between.read, between.operand).items()}
    return tuple([(makes.get(dim), reads.get(dim)) for dim in ("batch", *between.dims, IN_GROUP)])


RESIDUE = 1e-9
"""Fraction of a tensor below which nothing is received."""

Products = Factors
"""The products over the levels above: of one tuple numbers, or ``[tuples of the producer, tuples of the consumer]``."""

OUTERMOST = Products(*[1.0] * len(Factors._fields))  # type: ignore[arg-type]


def received(part: Part, above: Products, factors: Factors, *, least: bool = False) -> Any:
    """Return the elements of a transfer that all devices receive at a level, by its factors: numbers, or for each pair of tuples.

    ``above`` are the products of the levels above; the ``least`` ones for a lower bound: no product grows faster than what it is part of.
    """
    grown = []
    for size, gets, has, apart in part.changes:
        more, before = getattr(factors, gets), getattr(above, gets)
        if apart:
            lacking = more - getattr(factors, has)
            grown.append(getattr(above, apart) * (size * (lacking * (abs(lacking) > RESIDUE))))
            continue
        there, held = (getattr(factors, has), getattr(above, has)) if has else (1.0, before)
        before = np.where(there > 1.0, held, before) if least and has else before
        grown.append(before * (size * (more - 1.0)))
        if has:
            grown.append(held * (-size * (there - 1.0)))
    return reduce(add, grown)


class Sums(NamedTuple):
    """The partial sums of a layer that are added up inside it.

    Attributes:
        output: whether F_out is added up inside the layer.
        input: whether E_in is.
        weight: whether dW is; that of a weight that an earlier layer has too is added up with that layer's.
        as_read: elements of F_out as its readers see it, which ``paper`` adds up; None where they are added up before the ops
            behind the layer.
    """

    output: bool
    input: bool
    weight: bool = True
    as_read: float | None = None

    @property
    def apart(self) -> bool:
        """Whether each level is counted by itself: gaps between windows too, and rows beside borders as a transfer of their own."""
        return self.as_read is not None


Parts = tuple[Part, ...]
"""The transfers of a tensor in the order in which they run: of F, then of E."""


@lru_cache(maxsize=4096)
def parts_of(
    between: Between, elements: float, made: float = 0.0, *, error: bool = True, terms: bool = False
) -> Parts:
    """Return the transfers of a tensor, of which the consumer reads so many elements of F and of E.

    ``made`` are those of the producer's F_out before the ops between, where its sums go straight to the consumer. E is sent back where
    there is an ``error``, as ``terms`` where these are not added up inside the consumer; at rest they are terms again.
    """
    size, above = elements, "need" if between.apart else ""
    onward, sent = between.onward, "errors" if terms or between.onward else "backward"
    kept: tuple[Change, ...] = (Change(size, "kept", "back", above),)
    if between.made.view:
        kept = (Change(size, "need", "both"),)
    elif terms:
        kept = (Change(size, "need", "owned"), Change(size, "kept"))
    every = (
        (onward, Part("forward", "output", "sums", (Change(made, "terms"), Change(made, "left", "placed")))),
        (between.contracted, Part("forward", "input", "sums", (Change(2 * size, "kept", "alone", above),))),
        (True, Part("forward", "input", "forward", (Change(size, "need", "both", above),))),
        (error, Part("backward", "input", sent, kept)),
        (error and onward, Part("backward", "output", "backward", (Change(made, "terms", "met"),))),
    )
    return tuple([part for runs, part in every if runs])


@lru_cache(maxsize=4096)
def parts_of_weight(elements: int) -> Parts:
    """Return the transfers of the gradient of a weight that two layers use, besides those among the producer's devices.

    A device with terms for the consumer that has none for the producer is one more that has terms, and gets the sum.
    """
    size = float(elements)
    return (
        Part("gradient", "weight", "backward", (Change(size, "need", "back"),)),
        Part("gradient", "weight", "forward", (Change(size, "need", "both"),)),
    )


@lru_cache(maxsize=4096)
def names_of(parts: Parts) -> tuple[str, ...]:
    """Return the names of the factors that transfers count."""
    return tuple({name: None for part in parts for change in part.changes for name in change[1:] if name})


def sends_back(parts: Parts) -> bool:
    """Return whether E is sent back."""
    return any(part.phase == "backward" for part in parts)


def phase_of(tensor: str) -> str:
    """Return the phase that computes a tensor: its value, its error, or its gradient."""
    return {"output": "forward", "weight": "gradient"}.get(tensor, "backward")


@dataclass(frozen=True, eq=False, slots=True)
class Network:
    """The transfers of a network, whatever the choices.

    Each layer has its sums that are added up inside it; each tensor, also a weight that two layers use, its dims at both ends, its transfers,
    and the image that it is.
    """

    sums: tuple[Sums, ...]
    between: tuple[Between, ...]
    parts: tuple[Parts, ...]
    images: tuple[Image, ...]
    tensors: tuple[Tensor, ...]


@kept_with_graph
def network_of(graph: PlanGraph, convention: str, *, tied: bool = True) -> Network:
    """Return the transfers of a network under a convention; equal dims and equal transfers share one object.

    Under ``paper`` every layer adds up all its sums, and every tensor has an error; under others none is sent to a layer before which
    nothing is trained. The terms of an error are added up on the way under ``fused`` and ``direct``, of a pool by ``direct``
    alone; under ``fused`` also the sums of an output that one layer reads. The gradient of a weight that several layers use is added up
    once where it is ``tied``, and not once for each.

    Raises:
        OptionError: there is no such convention.
    """
    if convention not in CONVENTIONS:
        raise OptionError("convention", f"found {convention!r}", ", ".join(CONVENTIONS))
    layers, apart, fused = graph.layers, convention == PAPER, convention == FUSED
    needed = [apart or index in graph.fed for index in range(len(layers))]
    readers = Counter([*graph.sent, *(tensor.producer for tensor in graph.tensors)])
    sent_on, as_terms, found = set(), {}, {}
    for tensor in sorted(graph.tensors, key=lambda one: one.consumer):
        made, read = graph.ends(tensor)
        error = made.weighted or needed[tensor.producer]
        needed[tensor.consumer] |= error
        onward = fused and made.nest.multiplies and readers[tensor.producer] == 1
        sent_on |= {tensor.producer} if onward else set()
        summed = read.nest.multiplies or read.rest or (convention == DIRECT and bool(read.nest.windows))
        unsummed = made.rest or (summed and convention in {FUSED, DIRECT})
        terms = as_terms[tensor.consumer] = error and unsummed
        between = between_of(made, read, tensor, onward=onward, apart=apart)
        straight, shape = made.nest if onward else None, tensor.shape
        image = () if apart else image_of(read.nest, tensor.operand, shape, straight, adds=not terms)
        size = tensor.elements * fraction_read(image)
        whole = float(made.nest.elements("output")) if onward else 0.0
        found[id(tensor)] = between, parts_of(between, size, whole, error=error, terms=terms), image
    ties = () if apart or not tied else graph.ties
    every = [found[id(tensor)] for tensor in graph.tensors]
    every += [(between_of(*graph.ends(tie), tie), parts_of_weight(tie.elements), ()) for tie in ties]
    sums = [
        Sums(
            output=at not in sent_on,
            input=needed[at] and not as_terms.get(at),
            weight=all(tie.consumer != at for tie in ties),
            as_read=layer.output_elements if convention == PAPER else None,
        )
        for at, layer in enumerate(layers)
    ]
    columns: Any = [*zip(*every, strict=True)] or [()] * 3
    between, parts, images = columns
    return Network(tuple(sums), between, parts, images, (*graph.tensors, *ties))


def between_of(
    made: PlanNode, read: PlanNode, tensor: Tensor, *, onward: bool = False, apart: bool = False
) -> Between:
    """Return a tensor's dims at both ends."""
    ends, dims = (made.nest.unsized, read.nest.unsized), tuple(dim for dim, _ in tensor.shape)
    borders = tuple(windowed(read.nest).items()) if apart else ()
    return _one_between(*ends, dims, tensor.contracted, onward, apart, tensor.operand, borders)


_one_between = lru_cache(maxsize=4096)(Between)
"""Returns one object for equal dims."""


@lru_cache(maxsize=4096)
def windowed(nest: Nest) -> Mapping[str, float]:
    """Return the dims of which neighbouring shards read the same rows, and the fraction of F_in that two of them share."""
    sizes = nest.input_sizes
    return {dim: own.halo / sizes[dim] for dim, own in nest.windows.items() if sizes[dim] and own.halo}
