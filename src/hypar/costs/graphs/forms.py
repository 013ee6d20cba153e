"""The form of a tensor between two layers: what its transfers cost by the exponents of what a level multiplies."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from hypar.costs.graphs.offered import UncountableError, exponents
from hypar.sharding.amounts.between import names_at
from hypar.sharding.placement import IDLE
from hypar.solve.counts.forms import EVERYWHERE, Form, Term, merged
from hypar.solve.counts.idle import Idle
from hypar.solve.counts.once import Once

if TYPE_CHECKING:
    from hypar.costs.graphs.offered import Dims, Powers
    from hypar.sharding.amounts.between import Between, Part


@lru_cache(maxsize=4096)
def form_of(
    between: Between,
    parts: tuple[Part, ...],
    dims: tuple[Dims, Dims],
    prices: tuple[float, float],
    *,
    late: bool,
) -> Form:
    """Return the form of a tensor's transfers.

    Args:
        between: the tensor.
        parts: the transfers.
        dims: the dims that producer and consumer may divide.
        prices: the cost of an element inside layers and between two.
        late: whether transfers have fixed costs.

    Raises:
        UncountableError: a factor depends on both in another way.
    """
    powers, names = exponents(between, dims), zip(*names_at(between), strict=True)
    numbers = [{dim: at for at, dim in enumerate((*own, IDLE))} for own in names]
    made, read = (
        tuple([own.get(dim, EVERYWHERE) for dim in of]) for own, of in zip(numbers, dims, strict=True)
    )
    weights: dict[str, float] = defaultdict(float)
    for part in parts:
        for size, gets, has, _ in part.changes:
            weights[gets] += size * prices[not part.inside]
            weights[has] -= size * prices[not part.inside]
    # Options of the consumer to which sums do not go straight, though they divide the tensor: groups.
    kept = powers["kept"][np.array(made) == EVERYWHERE].any(axis=0)
    staying = tuple(at for at, own in enumerate(read) if kept[at] and own != EVERYWHERE)
    shape = Form(made, read, staying=staying)
    alone: tuple[list[Term], list[Term]] = ([], [])
    amounts = [0.0, 0.0, 0.0]
    for name in [name for name, weight in weights.items() if weight]:
        own, weight = powers[name], weights[name]
        if (own == own[:, :1]).all():
            alone[0].append(Term(weight, tuple(own[:, 0].tolist())))
        elif (own == own[0]).all():
            alone[1].append(Term(weight, tuple(own[0].tolist())))
        else:
            kinds = [(own == expected).all() for expected in shape.powers]
            if not any(kinds):
                raise UncountableError
            amounts[kinds.index(True)] += weight
    form = shape._replace(
        both=amounts[0],
        owned=amounts[1],
        kept=amounts[2],
        alone=(merged(alone[0], len(made)), merged(alone[1], len(read))),
        staying=staying if amounts[2] else (),
        once=_once(parts, powers, shape) if late else (),
    )
    if form.both > 0 or form.owned > 0 or form.kept < 0 or form.both + form.kept > 0:
        raise UncountableError
    return form._replace(idle=_idle(parts, dims, form))


def _idle(parts: tuple[Part, ...], dims: tuple[Dims, Dims], form: Form) -> Idle | None:
    """Return what is received more slowly where devices are idle; None for forms of which that is not counted."""
    made, read = (own.index(IDLE) if IDLE in own else None for own in dims)
    whole = [tuple(int(own == EVERYWHERE) for own in of) for of in (form.made, form.read)]
    backward, forward = (
        sum(own.elements for part in parts if part.forward == way for own in part.changes if own.has == has)
        for way, has in ((False, "back"), (True, "both"))
    )
    if (made, read) == (None, None) or form.both != -(forward + backward):
        return None
    return Idle((made, read), (whole[0], whole[1]), (backward, forward))


def _once(parts: tuple[Part, ...], powers: Powers, form: Form) -> tuple[Once, ...]:
    """Return the transfers whose fixed costs counts bound from below; the others are left out.

    Best meetings have the most of what both ends share, and the fewest levels at which both have the whole tensor. They have
    the least fixed costs as well if another level less of what is shared costs at least as much as a level of the whole
    tensor at both ends.
    """
    every = [own for part in parts if (own := _once_of(part, powers, form)) is not None]
    if sum(own.everywhere for own in every) < 0:
        every = [own for own in every if own.everywhere >= 0]
    shared, everywhere = (sum(getattr(own, name) for own in every) for name in ("shared", "everywhere"))
    if shared < everywhere:
        every = [own for own in every if own.shared >= own.everywhere]
    elif shared < everywhere + sum(own.again for own in every):
        every = [own._replace(again=False) for own in every]
    return tuple(every)


def _once_of(part: Part, powers: Powers, form: Form) -> Once | None:
    """Return a transfer; None if it has another form, or moves nothing at any level."""
    changes = [(powers[own.gets], powers[own.has]) for own in part.changes if own.elements]
    sure = np.any([more > less for more, less in changes], axis=0)
    if not sure.any() or any((more < np.maximum(less, 0)).any() for more, less in changes):
        return None
    # A level that moves nothing by itself does below others that do.
    again = np.any([(more == less) & (more > 0) for more, less in changes], axis=0) & ~sure
    whole = (np.array(form.made) == EVERYWHERE)[:, None] & (np.array(form.read) == EVERYWHERE)
    for shared, everywhere in product((1, 0), (0, 1, -1)):
        rest = sure + shared * form.exponents - everywhere * whole
        made, read = rest[:, 0], rest[0] - rest[0, 0]
        if (rest == made[:, None] + read).all():
            after = bool(again[whole].all())
            return Once(tuple(made.tolist()), tuple(read.tolist()), shared, everywhere, after)
    return None
