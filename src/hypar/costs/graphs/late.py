"""The transfers of a tensor between two layers as far as each has a fixed cost, by counts."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.counts.forms import EVERYWHERE, Form
from hypar.solve.counts.once import Once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hypar.sharding.amounts.transfers import Part

    Pairs = NDArray[np.bool_]
    Powers = Mapping[str, NDArray[np.int64]]


def once_of(
    parts: tuple[Part, ...], powers: Powers, made: tuple[int, ...], read: tuple[int, ...]
) -> tuple[Once, ...]:
    """Return the transfers whose fixed costs counts bound from below; the others are left out.

    Best meetings have the most of what both ends share, and the fewest levels at which both have the whole tensor. They have
    the least fixed costs as well if another level less of what is shared costs at least as much as a level of the whole
    tensor at both ends.

    Args:
        parts: the transfers.
        powers: the exponent of each factor for each pair of options.
        made: the class of each option of the producer.
        read: the class of each option of the consumer.
    """
    form = Form(made, read, 0, 0, 0, ((), ()))
    every = [own for part in parts if (own := _once(part, powers, form)) is not None]
    if sum(own.everywhere for own in every) < 0:
        every = [own for own in every if own.everywhere >= 0]
    shared, everywhere = (sum(getattr(own, name) for own in every) for name in ("shared", "everywhere"))
    if shared < everywhere:
        every = [own for own in every if own.shared >= own.everywhere]
    elif shared < everywhere + sum(own.again for own in every):
        every = [own._replace(again=False) for own in every]
    return tuple(every)


def _once(part: Part, powers: Powers, form: Form) -> Once | None:
    """Return a transfer; None if it has another form, or moves nothing at any level."""
    moves = _moves(part, powers)
    if moves is None or not moves[0].any():
        return None
    sure, again = moves
    s = form.exponents
    one, other = (np.array(own) == EVERYWHERE for own in (form.made, form.read))
    whole = one[:, None] & other
    for shared, everywhere in product((1, 0), (0, 1, -1)):
        rest = sure + shared * s - everywhere * whole
        made, read = rest[:, 0], rest[0] - rest[0, 0]
        if (rest == made[:, None] + read).all():
            after = bool(again[whole].all())
            return Once(tuple(made.tolist()), tuple(read.tolist()), shared, everywhere, after)
    return None


def _moves(part: Part, powers: Powers) -> tuple[Pairs, Pairs] | None:
    """Return whether a level moves something with each pair of options: always, and below others that do."""
    shape = next(iter(powers.values())).shape
    sure, again = np.zeros((2, *shape), dtype=bool)
    for size, gets, has, _ in part.changes:
        if not size:
            continue
        more = powers[gets]
        less = powers[has] if has else np.zeros_like(more)
        if (more < 0).any() or (more < less).any():
            return None
        sure |= more > less
        again |= (more == less) & (more > 0)
    return sure, again & ~sure
