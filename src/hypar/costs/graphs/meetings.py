"""What two layers share of a tensor as a form of counts: options of one class at both ends divide it in the same way.

The classes are read off the factors of one level of each number of ways: a factor is a power of the ways, and the power of
what is shared is the number of ends with the whole tensor, less one, plus one if both divide the same dim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.costs.graphs.late import once_of
from hypar.sharding.amounts.factors import plain
from hypar.sharding.amounts.products import priced_names
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import ALONE, WHOLE, cut
from hypar.solve.counts.forms import EVERYWHERE, Form, Term, merged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hypar.sharding.amounts.between import Between
    from hypar.sharding.amounts.parts import Part
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs

    Powers = NDArray[np.int64]

BATCH = "batch"

IDLE = "idle"
"""Stands for a dim where one device computes the whole layer; its tensors are on one device, as if a dim of their own were cut."""

Dims = tuple[str | None, ...]
"""The dims that a layer may divide; None for the whole layer."""


KINDS = ("both", "owned", "kept")
"""The factors that depend on both ends, in the order of the weights of a form."""


class UncountableError(Exception):
    """The costs are no products over the levels, or meet in a way that has no closed form."""


class Meeting(NamedTuple):
    """A tensor between two layers, for any weights.

    Attributes:
        powers: the exponent of each factor for each pair of options.
        made: the class of each option of the producer.
        read: the class of each option of the consumer.
    """

    powers: dict[str, Powers]
    made: tuple[int, ...]
    read: tuple[int, ...]


def options_of(dims: Dims, ways: int) -> Options:
    """Return the choices that divide some dims over all devices."""
    special = {None: WHOLE, IDLE: ALONE}
    return tuple(special[dim] if dim in special else cut(str(dim), ways) for dim in dims)


def powers_of(factors: Costs, ways: int) -> Powers:
    """Return the exponents of factors that are powers of the ways.

    Raises:
        UncountableError: some factor is none.
    """
    found: Powers = np.rint(np.log(factors) / np.log(ways)).astype(np.int64)
    if not np.allclose(float(ways) ** found, factors, rtol=1e-12):
        raise UncountableError
    return found


def meeting(
    between: Between, dims: tuple[Dims, Dims], replaced: tuple[Dims, Dims], ways: Sequence[int]
) -> Meeting:
    """Return what two layers share.

    Args:
        between: the tensor.
        dims: the dims that producer and consumer may divide.
        replaced: those whose place the batch takes.
        ways: the numbers of ways of the levels.

    Raises:
        UncountableError: what they share has no closed form.
    """
    powers = _powers(between, dims, ways[0])
    if any(_differ(powers, _powers(between, dims, own)) for own in ways[1:]):
        raise UncountableError
    _require_batch(between, dims, replaced, ways[0])
    return Meeting(powers, *_classes(powers))


def _powers(between: Between, dims: tuple[Dims, Dims], ways: int) -> dict[str, Powers]:
    """Return the exponent of each factor of a level, ``[options of the producer, options of the consumer]``."""
    factors = plain(between, (options_of(dims[0], ways), options_of(dims[1], ways)), ways).factors
    shape = tuple(map(len, dims))
    return {
        name: powers_of(np.broadcast_to(factor[:, 0], shape), ways)
        for name, factor in factors._asdict().items()
    }


def _differ(one: dict[str, Powers], other: dict[str, Powers]) -> bool:
    return any((powers != other[name]).any() for name, powers in one.items())


def _classes(powers: dict[str, Powers]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the class of each option of both ends."""
    hold, need = powers["hold"][:, 0], powers["need"][0]
    if (powers["hold"] != hold[:, None]).any() or (powers["need"] != need).any():
        raise UncountableError
    if not {*hold.tolist(), *need.tolist()} <= {0, 1}:
        raise UncountableError
    same = powers["both"] - hold[:, None] - need + 1
    if not {*same.reshape(-1).tolist()} <= {0, 1} or same[hold == 1].any() or same[:, need == 1].any():
        raise UncountableError
    names: dict[bytes, int] = {}
    read = [EVERYWHERE if whole else len(hold) + at for at, whole in enumerate(need.tolist())]
    made = []
    for at, (whole, row) in enumerate(zip(hold.tolist(), same, strict=True)):
        name = EVERYWHERE if whole else names.setdefault(row.tobytes(), at) if row.any() else at
        made.append(name)
        for column in np.flatnonzero(row).tolist():
            if read[column] not in {name, len(hold) + column}:
                raise UncountableError
            read[column] = name
    return tuple(made), tuple(read)


def _require_batch(between: Between, dims: tuple[Dims, Dims], replaced: tuple[Dims, Dims], ways: int) -> None:
    """Check that no two layers share less once a cut of the batch takes the place of those of height and width.

    A dim that ops on the way sum leaves partial sums, which cost more than they save.

    Raises:
        UncountableError: they share less.
    """
    if not any(replaced):
        return
    every = (dims[0] + replaced[0], dims[1] + replaced[1])
    powers = _powers(between, every, ways)
    place = [[own.index(BATCH if dim in SPATIAL else dim) for dim in own] for own in every]
    kept = np.array([dim not in between.contracted for dim in every[0]])
    less = (powers["both"] > powers["both"][np.ix_(*place)]) & kept[:, None]
    more = powers["need"] < powers["need"][np.ix_(*place)]
    if less.any() or more.any():
        raise UncountableError


def _staying(found: Meeting) -> tuple[int, ...]:
    """Return the consumer's options to which sums do not go straight, though they divide the tensor: groups."""
    whole = np.array([own == EVERYWHERE for own in found.made])
    kept = found.powers["kept"][whole].any(axis=0)
    return tuple(at for at, own in enumerate(found.read) if kept[at] and own != EVERYWHERE)


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
    staying = _staying(found)
    shared = dict(zip(KINDS, Form(found.made, found.read, 0, 0, 0, ((), ()), staying).powers, strict=True))
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
