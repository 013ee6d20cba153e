"""A tensor between two layers: its dims at both ends, and its factors at one level.

A factor is the fraction of a tensor that all devices of a group have together: an array of three axes, options of the
producer, tuples of the consumer above the level, options of the consumer. An axis along which it does not vary has one
entry.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.ops.dims import atom_of
from hypar.ops.nest import IN_GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hypar.ops.nest import Nest
    from hypar.solve.edge import Costs


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

    @property
    def reads(self) -> Mapping[str, str]:
        """The consumer's dims with their names in the tensor."""
        return dims_of(self.read, self.operand)


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
        owned: fraction at one owner of each element of E, of which it has a term.
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
    reads = {tensor: op for op, tensor in between.reads.items()}
    return tuple([(makes.get(dim), reads.get(dim)) for dim in ("batch", *between.dims, IN_GROUP)])


RESIDUE = 1e-9
"""Fraction of a tensor below which nothing is received."""

Products = Factors
"""The products over the levels above: of one tuple numbers, or ``[tuples of the producer, tuples of the consumer]``."""

OUTERMOST = Products(*[1.0] * len(Factors._fields))  # type: ignore[arg-type]
"""The products at the outermost level."""


def received(part: Part, above: Products, factors: Factors, *, least: bool = False) -> Any:
    """Return the elements of a transfer that all devices receive at a level.

    Args:
        part: the transfer.
        above: the products of the levels above.
        factors: the factors of the level, as numbers or for each pair of tuples.
        least: whether the products are the least ones, for a lower bound: no product grows faster than what it is part of.
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
