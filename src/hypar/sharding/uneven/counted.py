"""The elements that each group of an uneven split receives under ``moved`` and ``fused``, for many options at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.sharding.amounts.factors import factors_of_pair
from hypar.sharding.amounts.fractions import (
    Interval,
    Rows,
    as_consumer,
    as_producer,
    cut_by,
    fractions_of,
    shards_of,
    working,
)
from hypar.sharding.amounts.inside import elements_of
from hypar.sharding.amounts.products import RESIDUE
from hypar.sharding.amounts.rows import border_of
from hypar.sharding.amounts.transfers import phase_of
from hypar.sharding.levels import WHOLE_LAYER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between, Factors
    from hypar.sharding.amounts.fractions import Array, Offered
    from hypar.sharding.amounts.products import Products
    from hypar.sharding.amounts.transfers import Part, Sums


class Amount(NamedTuple):
    """The elements that each group of an uneven split receives in one change of placement.

    Attributes:
        phase: the phase whose result or operand moves.
        collective: the collective that moves it, as ``all_reduce``.
        elements: the elements that each group receives, of several options ``[...]`` for each group.
        tensor: ``input``, ``weight`` or ``output``; between two layers ``input``, which the consumer reads, or ``output``, which
            the producer makes.
        fuller: for each group that works, and each lane inside it, how many times the average of the group the fullest device
            receives; nothing for once.
    """

    phase: str
    collective: str
    elements: tuple[Any, ...]
    tensor: str = "input"
    fuller: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def of(cls, phase: str, collective: str, elements: Array, tensor: str) -> Amount:
        """Return the amount of elements ``[..., groups]``."""
        return cls(phase, collective, tuple(np.moveaxis(elements, -1, 0)), tensor)


def received_inside(nest: Nest, sums: Sums, offered: Offered) -> Iterator[Amount]:
    """Yield the elements that each group receives to add up the partial sums of a layer.

    Each group adds up its share of a result and gets the other shares; rows beside a border have one owner.

    Args:
        nest: the layer, with the sizes that the splits above leave.
        sums: the results that are added up inside it.
        offered: its options.
    """
    apart = sums.apart
    at_work = working(offered, apart=apart)
    terms = at_work.sum(axis=-1, keepdims=True)
    own = np.where(cut_by(offered, {None}), 1.0 / terms, offered.shares)
    for tensor, size in zip(nest.names, elements_of(nest, sums)[:, 0].tolist(), strict=True):
        partial = ~cut_by(offered, {*nest.names[tensor], None})
        if partial.any() and size:
            each = (terms - 1.0) * own + (1.0 - own)
            elements = size * np.where(partial & (terms > 1), each * at_work, 0.0)
            yield Amount.of(phase_of(tensor), "all_reduce", elements, tensor)
    if sums.input:
        yield from _halos(nest, offered, apart=apart)


def _halos(nest: Nest, offered: Offered, *, apart: bool) -> Iterator[Amount]:
    """Yield the terms of E_in in rows beside borders, which each group gets of its own rows."""
    for dim, window in nest.windows.items():
        cut = cut_by(offered, {dim})
        if cut.any() and border_of(nest, dim):
            shards = shards_of(offered, cut)
            border = border_of(nest, dim) if apart else None
            rows = Rows(window, (nest.sizes[dim], nest.input_sizes[dim]), cut, border)
            reads, owned = rows.read(shards), rows.owned(shards, shards, np.zeros_like(cut))
            beside = (reads.width - owned.width) * (offered.shares > 0) if apart else _of_others(reads, owned)
            others = np.where(cut, beside, 0.0)
            if others.any():
                yield Amount.of(phase_of("input"), "neighbours", nest.input_elements * others, "input")


def _of_others(reads: Interval, owned: Interval) -> Array:
    """Return the width of the rows of each group that other groups read as well, once for each of them."""
    each = Interval(*(np.expand_dims(bound, -1) for bound in reads))
    mine = Interval(*(np.expand_dims(bound, -2) for bound in owned))
    return np.asarray(each.shared(mine).sum(axis=-2) - reads.shared(owned))


def received_between(
    reader: Nest,
    between: Between,
    parts: tuple[Part, ...],
    above: Products,
    made: Offered,
    read: Offered,
    own: Factors | None = None,
) -> list[Amount]:
    """Return the transfers of a tensor between two layers, ``[..., options of producer, of consumer]`` for each group.

    Args:
        reader: the consumer, with the sizes that the splits above leave.
        between: the tensor's dims at both ends.
        parts: its transfers.
        above: the products above the split.
        made: the options of the producer.
        read: the options of the consumer.
        own: the factors of each group, where they are known.
    """
    own = own or fractions_of(reader, between, made, read)
    shares, pair = (as_producer(made.shares), as_consumer(read.shares)), (made.options[0], read.options[0])
    ways = max(2, *(choice.devices(1) for choice in pair))
    kinds = factors_of_pair(reader, between, pair, WHOLE_LAYER, ways)[1]
    return [
        Amount.of(part.phase, kinds[part.manner], _received(part, own, above, shares), part.tensor)
        for part in parts
    ]


def _received(part: Part, own: Factors, above: Factors, shares: tuple[Array, Array]) -> Array:
    """Return the elements of a transfer that each group receives, ``[..., options of producer, of consumer, groups]``."""
    size = part.changes[0].elements
    if part.manner == "sums" and part.tensor == "output":
        found = _added(own.terms, own.left, shares[0], above.terms, above.left) * size
    elif part.manner == "sums":
        found = _pooled(own, shares[0], above) * size
    elif len(part.changes) > 1:
        found = _returned(own, above, shares[1]) * size
    else:
        change = part.changes[0]
        lack = getattr(above, change.gets) * getattr(own, change.gets)
        lack = lack - getattr(above, change.has) * getattr(own, change.has)
        entered = getattr(above, change.gets) - getattr(above, change.has)
        found = _inward(np.maximum(lack, 0.0), entered) * size
    return np.where(found > RESIDUE * size, found, 0.0)


def _added(terms: Array, left: Array, owned: Array, above: Any, after: Any) -> Array:
    """Return what groups receive to add up terms of everything and to get what each needs of the sums."""
    total = terms.sum(axis=-1, keepdims=True)
    parts = left.sum(axis=-1, keepdims=True)
    owner = np.where(parts > 1.0 + RESIDUE, owned * (left > 0), left)
    return np.asarray(owner * (total - 1.0) * above + (left - owner) * after)


def _pooled(own: Factors, owned: Array, above: Factors) -> Array:
    """Return what groups receive, for each element, to add up the sums that ops between two layers take."""
    kept, alone = own.kept.sum(axis=-1, keepdims=True), own.alone.sum(axis=-1, keepdims=True)
    total = above.kept * (kept - 1.0) - above.alone * (alone - 1.0)
    return np.asarray(
        total * _added(own.kept, own.kept, owned, 1.0, 1.0) / np.maximum(2 * (kept - 1.0), RESIDUE)
    )


def _returned(own: Factors, above: Factors, shares: Array) -> Array:
    """Return what groups receive of E as terms: each sum is made by a group that needs it, where it has a term."""
    need, kept = own.need.sum(axis=-1, keepdims=True), own.kept.sum(axis=-1, keepdims=True)
    whole = above.need * (need - 1.0) - above.owned * (own.owned.sum(axis=-1, keepdims=True) - 1.0)
    whole = whole + above.kept * (kept - 1.0)
    lack = np.maximum(own.kept - own.both, 0.0)
    several = kept > 1.0 + RESIDUE
    owner = np.where(several, shares * (own.kept > 0), own.kept)
    terms = np.where(
        own.both >= own.kept - RESIDUE, owner * (need - 1.0) + np.where(several, own.kept - owner, 0.0), lack
    )
    weights = np.where(terms.sum(axis=-1, keepdims=True) > RESIDUE, terms, own.kept)
    return np.asarray(whole * weights / np.maximum(weights.sum(axis=-1, keepdims=True), RESIDUE))


def _inward(lack: Array, entered: float) -> Array:
    """Return what groups receive at a split if some of what they lack has entered the split from outside."""
    if entered <= RESIDUE:
        return lack
    total = lack.sum(axis=-1, keepdims=True)
    return np.asarray(lack * np.maximum(0.0, 1.0 - entered / np.maximum(total, RESIDUE)))
