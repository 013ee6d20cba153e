"""What a level multiplies of a tensor between two layers, as exponents of its ways, read off the dims that both ends divide.

A level that divides a tensor leaves each element on one device, any other level on all of them. Both ends share as much as
the lesser has if they divide the same dim, or if one of them divides none; of unlike dims they share one part of each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.costs.graphs.late import once_of
from hypar.sharding.amounts.between import names_at
from hypar.sharding.amounts.products import priced_names
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import ALONE, IDLE, WHOLE, cut, partial_results, simple
from hypar.solve.counts.forms import EVERYWHERE, Form, Term, merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hypar.sharding.amounts.between import Between
    from hypar.sharding.amounts.transfers import Part
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Choice, Options

    Powers = NDArray[np.int64]

BATCH = "batch"

SPECIAL = {None: WHOLE, IDLE: ALONE}
"""The choices that divide no dim; with ``IDLE`` tensors are on one device, as if a dim of their own were cut."""

Dims = tuple[str | None, ...]
"""The dims that a layer may divide; None for the whole layer."""


class UncountableError(Exception):
    """The costs are no products over the levels, or meet in a way that has no closed form."""


class Offered(NamedTuple):
    """The dims that a layer may divide.

    Attributes:
        levels: those at each level.
        dims: all of them.
        replaced: height and width, in whose place the batch is divided.
    """

    levels: tuple[Dims, ...]
    dims: Dims
    replaced: Dims


def offered(options: tuple[Options, ...], levels: Sequence[Level]) -> Offered:
    """Return the dims that a layer may divide.

    Raises:
        UncountableError: a choice divides several, or height or width where the batch is not offered.
    """
    every, replaced = [], dict[str | None, None]()
    for own, level in zip(options, levels, strict=True):
        dims = [_dim_of(choice, level.ways) for choice in own]
        spatial = [dim for dim in dims if dim in SPATIAL]
        if spatial and BATCH not in dims:
            raise UncountableError
        replaced |= dict.fromkeys(spatial)
        every.append(tuple(dim for dim in dims if dim not in SPATIAL))
    return Offered(tuple(every), tuple(dict.fromkeys(dim for own in every for dim in own)), tuple(replaced))


def _dim_of(choice: Choice, ways: int) -> str | None:
    """Return the dim that a choice divides over all devices; None for none."""
    for dim, special in SPECIAL.items():
        if choice == special:
            return dim
    if not simple(choice, ways) or len(choice.divided) != 1:
        raise UncountableError
    return choice.divided[0]


def choice_of(dim: str | None, ways: int) -> Choice:
    """Return the choice that divides a dim over all devices."""
    return SPECIAL.get(dim) or cut(str(dim), ways)


class Meeting(NamedTuple):
    """A tensor between two layers, for any weights.

    Attributes:
        powers: the exponent of each factor for each pair of options.
        made: the dim of the tensor that each option of the producer divides, or ``EVERYWHERE``.
        read: the same of the consumer.
    """

    powers: dict[str, Powers]
    made: tuple[int, ...]
    read: tuple[int, ...]


def meeting(between: Between, dims: tuple[Dims, Dims]) -> Meeting:
    """Return what two layers share whose options divide some dims."""
    names = [*zip(*names_at(between), strict=True)]
    made, read = (
        tuple(
            len(own) if dim == IDLE else own.index(dim) if dim in {*own} - {None} else EVERYWHERE
            for dim in of
        )
        for own, of in zip(names, dims, strict=True)
    )
    form = Form(made, read, 0, 0, 0, ((), ()))
    both = form.exponents.astype(np.int64)
    hold, need = np.broadcast_arrays(
        (np.array(made) == EVERYWHERE)[:, None] * 1, (np.array(read) == EVERYWHERE) * 1
    )
    partial = np.array([["output" in partial_results(between.made, dim)] for dim in dims[0]])
    summed = np.array([[between.makes.get(dim or "") in between.contracted] for dim in dims[0]])
    divides = np.array([dim in {*names[1]} - {"groups", None} for dim in dims[1]])
    straight = partial & divides & between.onward
    kept = np.where(straight, need, hold)
    powers = {
        "need": need,
        "hold": hold,
        "kept": kept,
        "both": both,
        "back": both,
        "owned": np.minimum(both, 0),
        "alone": kept - summed,
        "terms": np.broadcast_to(partial * 1, both.shape),
        "left": np.where(straight, need, partial),
    }
    return Meeting(powers, made, read)


def require_batch(between: Between, ends: tuple[Offered, Offered]) -> None:
    """Check that no two layers share less once a cut of the batch takes the place of those of height and width.

    A dim that ops on the way sum leaves partial sums, which cost more than they save.

    Raises:
        UncountableError: they share less.
    """
    if not any(own.replaced for own in ends):
        return
    every = (ends[0].dims + ends[0].replaced, ends[1].dims + ends[1].replaced)
    powers = meeting(between, every).powers
    place = np.ix_(*[[own.index(BATCH if dim in SPATIAL else dim) for dim in own] for own in every])
    kept = np.array([[dim not in between.contracted] for dim in every[0]])
    less = (powers["both"] > powers["both"][place]) & kept
    if less.any() or (powers["need"] < powers["need"][place]).any():
        raise UncountableError


def form_of(
    parts: tuple[Part, ...], prices: tuple[float, float], found: Meeting, *, late: bool = False
) -> Form:
    """Return the form of a tensor's transfers.

    Args:
        parts: the transfers.
        prices: the cost of an element inside layers and between two.
        found: what both layers share.
        late: whether transfers have fixed costs.

    Raises:
        UncountableError: a factor depends on both in another way.
    """
    weights: dict[str, float] = {}
    for name, weight in zip(*priced_names(parts, prices), strict=True):
        weights[name] = weights.get(name, 0.0) + float(weight)
    # Options of the consumer to which sums do not go straight, though they divide the tensor: groups.
    kept = found.powers["kept"][np.array(found.made) == EVERYWHERE].any(axis=0)
    staying = tuple(at for at, own in enumerate(found.read) if kept[at] and own != EVERYWHERE)
    shared = dict(
        zip(
            ("both", "owned", "kept"),
            Form(found.made, found.read, 0, 0, 0, ((), ()), staying).powers,
            strict=True,
        )
    )
    s = shared["both"]
    amounts = dict.fromkeys(shared, 0.0)
    terms: tuple[list[Term], list[Term]] = ([], [])
    for name, weight in weights.items():
        powers = found.powers[name] if name else np.zeros_like(s)
        if not weight:
            continue
        if (powers == powers[:, :1]).all():
            terms[0].append(Term(weight, tuple(powers[:, 0].tolist())))
        elif (powers == powers[0]).all():
            terms[1].append(Term(weight, tuple(powers[0].tolist())))
        else:
            kind = next((own for own, expected in shared.items() if (powers == expected).all()), None)
            if kind is None:
                raise UncountableError
            amounts[kind] += weight
    made, read = (merged(own, len(of)) for own, of in zip(terms, (found.made, found.read), strict=True))
    form = Form(
        found.made,
        found.read,
        both=amounts["both"],
        owned=amounts["owned"],
        kept=amounts["kept"],
        alone=(made, read),
        staying=staying if amounts["kept"] else (),
        once=once_of(parts, found.powers, found.made, found.read) if late else (),
    )
    if form.both > 0 or form.owned > 0 or form.kept < 0 or form.both + form.kept > 0:
        raise UncountableError
    return form
