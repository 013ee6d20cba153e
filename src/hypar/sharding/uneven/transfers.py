"""Elements that each device group of an uneven split receives, inside a layer and between two layers.

Placements and ``received`` are those of a level of identical groups, with shares. A share is a number, or the
polynomial ``x``: the elements that a group receives depend on its own share alone and are then a polynomial in it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.placement import Partial, Replicate, Shard, partial_results
from hypar.sharding.redistribution import Number, collective, received, resolve
from hypar.sharding.transfers import borders, changes, dim_of, phase_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.network.nodes import PlanNode, Tensor
    from hypar.ops.nest import Nest
    from hypar.sharding.placement import Choice, Placement

Shares = tuple[Number, ...]
ROUNDING = 1e-12
"""The largest fraction of a tensor that counts as a rounding difference of shard bounds."""

Halo = tuple[float, float]
"""The fractions of a tensor that a group reads before and after its own shard."""


class Amount(NamedTuple):
    """The elements that each group of an uneven split receives in one change of placement.

    Attributes:
        phase: the phase whose result or operand moves.
        collective: the collective that moves it, as ``all_reduce``.
        elements: the elements that each group receives.
        tensor: of a transfer between two layers, ``input``, which the consumer reads, or ``output``, which the producer makes.
        fuller: for each group that works, and each lane inside it, how many times the average of the group the fullest device
            receives; nothing for once.
    """

    phase: str
    collective: str
    elements: tuple[Number, ...]
    tensor: str = "input"
    fuller: tuple[tuple[float, ...], ...] = ()


def inside(layer: PlanNode, choice: Choice, shares: Shares) -> Iterator[Amount]:
    """Yield the reductions of a layer's partial sums, and the halo exchange of a sharded image's error.

    Args:
        layer: the layer.
        choice: its choice at the split.
        shares: the shares of the groups; a group without a share has no terms of the sums.
    """
    sums = (Partial(), resolve(Partial()))
    partial = partial_results(layer.nest, dim_of(choice))
    fractions = (_known_added_up if _known(shares) else _added_up)(shares) if partial else []
    for tensor in partial:
        whole = layer.elements(tensor)
        yield Amount(phase_of(tensor), collective(*sums), tuple([each * whole for each in fractions]))
    halo = _halo(layer.nest, choice, shares)
    if any(map(any, halo)):
        elements = tuple(sum(past) * layer.nest.input_elements for past in halo)
        yield Amount(phase_of("input"), "neighbours", elements)


def _added_up(shares: Shares) -> list[Number]:
    """Return the fraction of a partial tensor that each group receives; groups without terms receive none."""
    at_work = [share for share in shares if not _none(share)]
    fractions = iter(received(Partial(), resolve(Partial()), at_work))
    return [share * 0 if _none(share) else next(fractions) for share in shares]


_known_added_up = lru_cache(maxsize=4096)(_added_up)


def _known(shares: Shares) -> bool:
    """Return whether shares are floats, so that what they lead to is found once."""
    return all(isinstance(share, float) for share in shares)


def between(
    tensor: Tensor,
    ends: tuple[PlanNode, PlanNode],
    choices: tuple[Choice, Choice],
    shares: tuple[Shares, Shares],
) -> Iterator[Amount]:
    """Yield the transfers of F from producer to consumer and of E from consumer to producer.

    Args:
        tensor: the tensor that the consumer reads.
        ends: producer and consumer.
        choices: the choice of each at the split.
        shares: the groups' shares of each; one object if they are equal.
    """
    made, read = ends[0].nest, ends[1].nest
    halo = tuple(_halo(read, choices[1], shares[1]))
    known = _known(shares[0]) and _known(shares[1])
    moves = (_known_moves if known else _moves)(
        (made.unsized, choices[0], read.unsized, choices[1], tensor.content.contracted),
        shares[1],
        None if shares[0] is shares[1] else shares[0],
        halo,
    )
    for phase, name, fractions in moves:
        yield Amount(phase, name, tuple([each * tensor.elements for each in fractions]))


def _moves(
    ends: tuple[Nest, Choice, Nest, Choice, frozenset[str]],
    read: Shares,
    made: Shares | None,
    halo: tuple[Halo, ...],
) -> list[tuple[str, str, list[Number]]]:
    """Return phase, collective and the fraction that each group receives of the transfers between two layers.

    Args:
        ends: producer and consumer without sizes, each with its choice, and the dims that are contracted between them.
        read: the groups' shares of the consumer.
        made: those of the producer; None if they are equal.
        halo: what each group reads of the consumer's input beside its shard.
    """
    mine = read if made is None else made
    summed, onward, back = changes(*ends)
    found = []
    if isinstance(summed[1], Partial):
        found.append((summed[0], collective(*summed[1:]), _added_up(mine)))
    moves = ((onward, read, mine, halo), (back, mine, read, ((0, 0),) * len(halo)))
    for (phase, before, after), needs, has, past in moves:
        found.append((phase, collective(before, after), _received(before, after, needs, has, past)))
    return found


_known_moves = lru_cache(maxsize=4096)(_moves)
"""The same for shares that are floats: many tensors have the same transfers."""


def _received(
    before: Placement, after: Placement, mine: Shares, theirs: Shares, halo: Sequence[Halo]
) -> list[Number]:
    """Return the fraction of a tensor that each group receives; an idle group needs and held nothing."""
    held = None if mine is theirs else theirs
    fractions = received(before, after, mine, 0, held)
    if any(map(any, halo)):
        fractions = [received(before, after, mine, sum(past), held)[group] for group, past in enumerate(halo)]
    if before == after and held is not None and isinstance(after, Shard):
        fractions = _beyond(held, mine, halo)
    for group, (needed, had) in enumerate(zip(mine, theirs, strict=True)):
        if _none(needed):
            fractions[group] = needed * 0
        elif _none(had) and isinstance(before, Replicate):
            fractions[group] = needed + sum(halo[group]) if isinstance(after, Shard) else needed * 0 + 1
    return fractions


def _beyond(held: Shares, needed: Shares, halo: Sequence[Halo]) -> list[Number]:
    """Return the fraction of its shard and halo that each group lacks under other shares of the same dim."""
    found = []
    for group, (low, high) in enumerate(halo):
        first, last = sum(needed[:group]) - low, sum(needed[: group + 1]) + high
        start, end = sum(held[:group]), sum(held[: group + 1])
        lacking = last - first - max(0, min(last, end) - max(first, start))
        found.append(lacking if lacking > ROUNDING else 0)
    return found


def _none(share: Number) -> bool:
    """Return whether a group has no share; an unknown share counts as a share."""
    return not isinstance(share, np.ndarray) and share == 0


def _halo(nest: Nest, choice: Choice, shares: Shares) -> list[Halo]:
    """Return the halo that each group reads: half of a border's halo at each border, within the image.

    With unknown shares every group is assumed to have a shard, and the image to reach as far as the windows.
    """
    found: list[Halo] = [(0.0, 0.0)] * len(shares)
    known = not any(isinstance(share, np.ndarray) for share in shares)
    for border in borders(nest, choice, len(shares)) if dim_of(choice) in nest.windows else ():
        half = border.fraction / 2
        for group, share in enumerate(shares):
            before, after = (
                (sum(shares[:group]), sum(shares[group + 1 :]))
                if known
                else (half * (group > 0), half * (group < len(shares) - 1))
            )
            found[group] = (0.0, 0.0) if _none(share) else (min(half, before), min(half, after))
    return found
