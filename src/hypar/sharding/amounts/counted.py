"""The elements of the transfers of one plan, for one layer and for one tensor between two."""

from __future__ import annotations

import operator
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from hypar.sharding.amounts.between import Factors
from hypar.sharding.amounts.factors import factors_of_pair
from hypar.sharding.amounts.inside import added, computing, elements_of
from hypar.sharding.amounts.products import OUTERMOST, RESIDUE, Products, received
from hypar.sharding.amounts.rows import cut_windows, windowed
from hypar.sharding.grids.reshard import Gap, reshard
from hypar.sharding.levels import WHOLE_LAYER, Level, LocalSizes, levels_of
from hypar.sharding.numbering import digits_of
from hypar.sharding.placement import WHOLE
from hypar.sharding.transfers import phase_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.network.nodes import Content
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.between import Between
    from hypar.sharding.amounts.flows import Sums
    from hypar.sharding.amounts.parts import Part
    from hypar.sharding.placement import Choice, Options

SEAM = -1
"""In place of a level: the stages, whose parts have one end of a tensor each."""

APART = {"both": 0.0, "back": 0.0}
"""The products below the stages that differ from those above them: no device has what it needs."""

_GROWTH = Factors(*[APART.get(name, 1.0) - 1.0 for name in Factors._fields])  # type: ignore[arg-type]
"""The growth of the products at the stages."""


class Received(NamedTuple):
    """A transfer at one level.

    Attributes:
        level: the level, 0 for the outermost; ``SEAM``.
        phase: the phase that it belongs to.
        tensor: ``weight``, ``output`` or ``input`` of the layer; between two layers ``input``, which the consumer reads,
            or ``output``, which the producer makes.
        collective: the collective.
        elements: elements that all devices receive.
        receivers: number of groups of the next level that receive.
        devices: number of devices that work in all of these together.
        inside: whether partial sums of a layer are added up.
    """

    level: int
    phase: str
    tensor: str
    collective: str
    elements: float
    receivers: int
    devices: int
    inside: bool


@lru_cache(maxsize=16384)
def received_inside(nest: Nest, sums: Sums, array: tuple[int, ...], chosen: Options) -> tuple[Received, ...]:
    """Return the transfers of all levels inside a layer, innermost first, so that wider groups exchange sums."""
    digits = digits_of(array, (chosen,))
    if digits is not None:
        moves = received_inside(nest, sums, digits.array, digits.chosen[0])
        return _together(reversed(moves), digits.of)[::-1]
    if sums.input and _divides(nest, chosen):
        amounts = _added(nest, sums, array, chosen)
    else:
        amounts = _added_evenly(nest, sums, array, chosen)
    found, receivers = [], _receivers(array, chosen)
    for level, (ways, choice) in enumerate(zip(array, chosen, strict=True)):
        at_level = _computing(nest.unsized, choice, ways)
        # Behind the tensors come rows of the first one beside the borders of each dim.
        beside = len(amounts[level]) - len(nest.names)
        tensors, kinds = (*nest.names, *["input"] * beside), (*at_level, *[(0.0, 0.0)] * beside)
        every = zip(tensors, amounts[level], kinds, strict=True)
        for tensor, amount, (_, summed) in every:
            if amount:
                kind, to = "all_reduce" if summed else "neighbours", (receivers[level], receivers[-1])
                found.append(Received(level, phase_of(tensor), tensor, kind, amount, *to, True))
    return tuple(reversed(found))


def _added_evenly(nest: Nest, sums: Sums, array: tuple[int, ...], chosen: Options) -> list[list[float]]:
    """Return the elements of each tensor that each level adds up, if no image with borders is divided."""
    found, above = [], (1.0,) * len(nest.names)
    elements: list[float] = elements_of(nest, sums)[:, 0].tolist()
    for ways, choice in zip(array, chosen, strict=True):
        at_level = _computing(nest.unsized, choice, ways)
        rows = zip(elements, above, at_level, strict=True)
        found.append([amount * copies * received for amount, copies, (_, received) in rows])
        above = tuple([copies * own for copies, (own, _) in zip(above, at_level, strict=True)])
    return found


def _added(nest: Nest, sums: Sums, array: tuple[int, ...], chosen: Options) -> list[list[float]]:
    """Return the elements of each tensor that each level adds up, the rows beside borders included."""
    sizes = _left(nest, array, chosen)
    return [
        added((nest,), (choice,), (left,), level, (sums,))[0, :, 0, 0].tolist()
        for level, choice, left in zip(_levels(array), chosen, sizes, strict=False)
    ]


@lru_cache(maxsize=4096)
def _computing(roles: Nest, choice: Choice, ways: int) -> tuple[tuple[float, float], ...]:
    """Return ``computing`` of one choice as numbers."""
    copies, received = computing(roles, (choice,), ways)[:, 0].T.tolist()
    return tuple(zip(copies, received, strict=True))


@lru_cache(maxsize=16384)
def received_between(
    reader: Nest,
    between: Between,
    parts: tuple[Part, ...],
    array: tuple[int, ...],
    chosen: tuple[Options, Options],
    above: Products = OUTERMOST,
    outside: int | None = None,
) -> tuple[Received, ...]:
    """Return the transfers of a tensor between two layers at all levels, in the order of its parts, outermost first.

    Args:
        reader: the consumer.
        between: the tensor's dims at both ends.
        parts: its transfers.
        array: the ways of each level.
        chosen: the choices of producer and consumer.
        above: the products above the outermost level.
        outside: for two layers in different stages, the number of levels outside the stages.
    """
    digits = digits_of(array, chosen) if outside is None else None
    if digits is not None:
        ends = (digits.chosen[0], digits.chosen[1])
        return _together(received_between(reader, between, parts, digits.array, ends, above), digits.of)
    products = above
    found: list[list[Received]] = [[] for _ in parts]
    receivers = tuple(_receivers(array, own) for own in chosen)
    reaching = cut_windows(reader, chosen[1])
    left = _left(reader, array, chosen[1]) if reaching else (WHOLE_LAYER,) * (len(array) + 1)
    for level, (ways, *pair) in enumerate(zip(array, *chosen, strict=True)):
        if level == outside:
            _from_stage(found, parts, products, receivers, level)
            products = products._replace(**APART)  # type: ignore[arg-type]
        factors, growth, kinds = factors_of_pair(reader, between, (pair[0], pair[1]), left[level], ways)
        for own, part in zip(found, parts, strict=True):
            elements = received(part, products, growth)
            if elements > RESIDUE * part.changes[0].elements:
                to, devices = receivers[part.forward][level], receivers[part.forward][-1]
                if between.apart:
                    # A level by itself is counted in each group that reads the tensor.
                    devices //= to
                    to = (1, *receivers[1])[level] * pair[part.forward].devices(ways)
                    devices *= to
                kind = kinds[part.manner]
                own.append(Received(level, part.phase, part.tensor, kind, elements, to, devices, part.inside))
        if between.apart and reaching:
            factors = factors_of_pair(between.read, between, (pair[0], pair[1]), WHOLE_LAYER, ways)[0]
        products = Products._make(map(operator.mul, products, factors))
    if outside == len(array):
        _from_stage(found, parts, products, receivers, outside)
    return tuple(one for own in found for one in own)


@lru_cache(maxsize=16384)
def received_directly(
    ends: tuple[Nest, Nest], content: Content, array: tuple[int, ...], chosen: tuple[Options, Options]
) -> tuple[Received, ...]:
    """Return the transfers of a tensor between two layers in whole elements, outermost first; arguments as above."""
    found = []
    left, receivers = _left(ends[1], array, chosen[1]), [_receivers(array, own) for own in chosen]
    for level, (ways, maker, reader) in enumerate(zip(array, *chosen, strict=True)):
        groups = (1, *receivers[1])[level]
        fractions = tuple(float(left[level].of(dim)[0]) for dim in ends[1].names["input"])
        for phase, kind, elements, devices in reshard(Gap(ends, content, ways, fractions), maker, reader):
            if elements:
                to, working = groups * devices, receivers[phase == "forward"]
                inner = working[-1] // working[level]
                found.append(Received(level, phase, "input", kind, elements * groups, to, to * inner, False))
    return tuple(found)


@lru_cache(maxsize=4096)
def fraction_lacked(between: Between, array: tuple[int, ...], chosen: tuple[Options, Options]) -> float:
    """Return the fraction of what the consumer's devices have of a tensor that they do not have for the producer.

    Args:
        between: the tensor's dims at both ends; a weight has no windows.
        array: the ways of each level.
        chosen: the choices of producer and consumer.
    """
    digits = digits_of(array, chosen)
    if digits is not None:
        array, chosen = digits.array, (digits.chosen[0], digits.chosen[1])
    both = 1.0
    for ways, *pair in zip(array, *chosen, strict=True):
        factors = factors_of_pair(between.read, between, (pair[0], pair[1]), WHOLE_LAYER, ways)[0]
        both *= float(factors.both) / float(factors.need)
    return 1.0 - both


def _from_stage(
    found: list[list[Received]],
    parts: tuple[Part, ...],
    products: Products,
    receivers: tuple[tuple[int, ...], ...],
    level: int,
) -> None:
    """Add what each part brings from another stage, below some levels; arguments as in ``received_between``."""
    for own, part in zip(found, parts, strict=True):
        to = receivers[part.forward][level - 1] if level else 1
        elements = elements_apart(part, products)
        own.append(Received(SEAM, part.phase, part.tensor, "neighbours", elements, to, to, part.inside))


def elements_apart(part: Part, above: Products) -> float:
    """Return the elements that a transfer brings from another stage, below some levels."""
    return float(received(part, above, _GROWTH))


def handed_on(part: Part, moves: tuple[Received, ...], outside: int) -> tuple[Received, ...]:
    """Return the transfers of what came from another stage, which gather it inside the stages."""
    if part.manner == "sums":
        return moves
    return tuple(one._replace(collective="all_gather") if one.level >= outside else one for one in moves)


def _together(moves: Iterable[Received], of: Sequence[int]) -> tuple[Received, ...]:
    """Return the transfers of digits, outermost first, as transfers of the levels that they are digits of."""
    found: list[Received] = []
    digits: list[int] = []
    for move in moves:
        level = of[move.level]
        last = found[-1] if found else None
        same = last is not None and (last.level, last.phase, last.tensor, last.inside) == (
            level,
            move.phase,
            move.tensor,
            move.inside,
        )
        if last is None or not same or digits[-1] >= move.level:
            found.append(move._replace(level=level))
            digits = [move.level]
            continue
        digits.append(move.level)
        found[-1] = last._replace(
            collective=_either(last.collective, move.collective),
            elements=last.elements + move.elements,
            receivers=max(last.receivers, move.receivers),
        )
    return tuple(found)


def _either(one: str, other: str) -> str:
    """Return the collective of a transfer of which two digits have collectives of their own."""
    if one == other:
        return one
    return "all_reduce" if "all_reduce" in {one, other} else "all_to_all"


@lru_cache(maxsize=16384)
def received_apart(
    reader: Nest,
    between: Between,
    part: Part,
    array: tuple[int, ...],
    chosen: Options,
    others: Options = (),
    above: Products = OUTERMOST,
) -> tuple[Received, tuple[Received, ...]]:
    """Return what a transfer brings to one end of a tensor whose other end lies in another stage.

    Args:
        reader: the consumer.
        between: the tensor's dims at both ends.
        part: the transfer.
        array: the ways of each level at the end that receives.
        chosen: the choices of its layer.
        others: the choices of the layer at the other end, at the levels outside the stages.
        above: the products above the outermost level.

    Returns:
        What comes from the other stage; the transfers that hand it on, or move it outside the stages, outermost first.
    """
    outside = len(others)
    other = (*others, *(WHOLE,) * (len(chosen) - outside))
    pair = (other, chosen) if part.forward else (chosen, other)
    if outside:
        found = received_between(reader, between, (part,), array, pair, above, outside)
    else:
        seams: list[list[Received]] = [[]]
        _from_stage(seams, (part,), above, (), 0)
        below = above._replace(**APART)  # type: ignore[arg-type]
        found = (*seams[0], *received_between(reader, between, (part,), array, pair, below))
    seam = next(one for one in found if one.level == SEAM)
    moves = tuple(one for one in found if one is not seam)
    return seam, handed_on(part, moves, outside)


@lru_cache(maxsize=16384)
def _receivers(array: tuple[int, ...], chosen: Options) -> tuple[int, ...]:
    """Return the number of groups of the next level that work, for each level."""
    working = (own.devices(ways) for own, ways in zip(chosen, array, strict=True))
    return tuple(accumulate(working, operator.mul))


def _divides(nest: Nest, chosen: Options) -> bool:
    """Return whether a choice divides an image whose windows read across borders."""
    return any(choice.degree(dim) > 1 for dim in windowed(nest) for choice in chosen)


@lru_cache(maxsize=64)
def _levels(array: tuple[int, ...]) -> tuple[Level, ...]:
    return levels_of(array, 1)


@lru_cache(maxsize=16384)
def _left(nest: Nest, array: tuple[int, ...], chosen: Options) -> tuple[LocalSizes, ...]:
    """Return a layer's sizes above each level."""
    found = [WHOLE_LAYER]
    for choice, ways in zip(chosen, array, strict=True):
        found.append(found[-1].divided(nest, (choice,), ways))
    return tuple(found)
