"""Choices of a layer at a level, the placements of its tensors that follow, and the sizes that are left of it below.

A *choice* is a degree for each dim of a layer. The placements follow from the layer's nest: a tensor that
carries a divided dim is in shards, a phase that contracts it leaves its result partial, every other tensor is
replicated. A choice of several dims combines these.

The digits of a device's number are the prime factors of the ways, ascending, and each divides one dim of a layer. Layers may divide
them in an order of their own; in any other grid each dim, in the order of ``ORDER``, takes for each of its factors the outermost
digit that is free, and idle devices take those that are left. A level is counted, and laid out, as the levels of its digits, which
are one level again in what is reported: no order of them changes what is moved in all, and pieces stay where they are.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate, groupby, pairwise
from operator import itemgetter, mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.ops.dims import CUTTABLE, in_order
from hypar.ops.nest import Nest
from hypar.solve.edge import Costs


class Choice(NamedTuple):
    """A degree for each dim of a layer that a level divides.

    Attributes:
        degrees: each dim with its degree, in the order of ``in_order``. The product of degrees is the number of
            working devices, a divisor of the ways of the level; the others are idle. Without any dim every device
            computes the whole layer.
        order: the numbering of the devices of a flat level, if the layer has one of its own: runs of digits, outermost
            first, each with the dim that it divides, or ``COPIES``. Their product is the ways, and no device is idle.
    """

    degrees: tuple[tuple[str, int], ...] = ()
    order: tuple[tuple[str, int], ...] = ()

    def degree(self, dim: str) -> int:
        """Return the degree of a dim; 1 if it is not divided."""
        return dict(self.degrees).get(dim, 1)

    def devices(self, ways: int) -> int:
        """Return the number of devices that work in a group of ``ways`` devices."""
        return math.prod(degree for _, degree in self.order or self.degrees) if self.degrees else ways

    @property
    def divided(self) -> tuple[str, ...]:
        """Dims with a degree above 1."""
        return tuple([dim for dim, degree in self.degrees if degree > 1])

    def text(self, ways: int) -> str | None:
        """Return the dims with their degrees, as ``batch4 height2``, a dim divided over all ways alone; None without any dim."""
        return " ".join(dim + str(degree) * (degree != ways) for dim, degree in self.degrees) or None


Options = tuple[Choice, ...]
"""The choices of a layer at a level."""

COPIES = "copies"
"""The pseudo-dim that divides the devices where each of them computes the same."""

IDLE = "idle"
"""The pseudo-dim that divides the devices of which one works."""

WORKING = "working"
"""The quantity that is divided beside a layer's dims: the groups that compute it."""

TINY = 1e-9
"""Difference below which two shares are equal, and fraction of an element within which a bound of shares is whole."""

WHOLE = Choice()
"""Every device computes the whole layer: a choice of joins, whose tensors are then replicated."""

ALONE = Choice((("batch", 1),))
"""One device computes the whole layer."""


def cut(dim: str, degree: int) -> Choice:
    """Return the choice that divides one dim."""
    return Choice(((dim, degree),))


def grid(degrees: Mapping[str, int]) -> Choice:
    """Return the choice that divides several dims, without those of degree 1; ``ALONE`` if none is left.

    Examples:
        >>> grid({"batch": 4, "height": 1, "width": 2}), grid({"batch": 1}) == ALONE
        (Choice(degrees=(('batch', 4), ('width', 2)), order=()), True)
    """
    dims = in_order(degrees) if len(degrees) > 1 else degrees
    return Choice(tuple([(dim, degrees[dim]) for dim in dims if degrees[dim] > 1]) or ALONE.degrees)


def numbered(runs: Iterable[tuple[str, int]]) -> Choice:
    """Return the choice of a layer whose devices are numbered in some order, by the dims that digits divide, or ``COPIES``.

    It is one without an order if one run is left.

    Examples:
        >>> numbered([("batch", 2), ("batch", 2), ("height", 2)])
        Choice(degrees=(('batch', 4), ('height', 2)), order=(('batch', 4), ('height', 2)))
    """
    order = beside(runs)
    if len(order) == 1:
        return choice_of(*order[0])
    degrees = dict(beside(sorted(order)))
    return Choice(tuple((dim, degrees[dim]) for dim in in_order(degrees) if dim != COPIES), order)


def beside(runs: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Return runs of digits, of which those of one dim beside each other are one."""
    each = groupby(runs, itemgetter(0))
    return tuple((dim, math.prod(degree for _, degree in own)) for dim, own in each)


def partial_results(nest: Nest, dim: str | None) -> tuple[str, ...]:
    """Return the results that dividing one dim leaves Partial: those of phases that contract the dim.

    The forward phase makes ``output`` of all other tensors; every other tensor has a phase that makes its error or its
    gradient of the error of ``output`` and of the others. A result without the dim is Partial if any of these has it.

    Returns:
        Those of ``output`` (forward), of the inputs (backward) and of ``weight`` (gradient) that are partial sums.
    """
    carrying = {tensor for tensor in nest.names if dim in nest.names[tensor]}
    if not carrying:
        return ("input",) if nest.view and dim == COPIES else ()
    order = ("output", "input", *nest.others, "weight")
    return tuple(tensor for tensor in order if tensor not in carrying and (tensor != "weight" or nest.weight))


def terms(nest: Nest, tensor: str, choices: Layout) -> Any:
    """Return how many devices have terms of each element of a result of a layer, ``[choices]``; at rest all that have it."""
    if nest.view and tensor != "output":
        return choices.working // math.prod(map(choices.degree, nest.names[tensor]))
    return math.prod(own for dim, own in choices.chosen.items() if tensor in partial_results(nest, dim))


def copies(choice: Choice, ways: int) -> int:
    """Return how many of the devices of a level compute the same."""
    return math.prod(own for dim, own in choice.order if dim == COPIES) if choice.degrees else ways


@lru_cache(maxsize=4096)
def simple(choice: Choice, ways: int) -> bool:
    """Return whether a choice uses all devices of a group, for at most one dim."""
    return len(choice.divided) <= 1 and not choice.order and choice.devices(ways) == ways


@lru_cache(maxsize=4096)
def dim_of(choice: Choice) -> str | None:
    """Return the dim that a simple choice divides; None if every device computes the whole layer."""
    return next(iter(choice.divided), None)


Numbers = NDArray[np.int64]

ORDER = ("batch", "height", "width", "groups", "in_channels", "out_channels", "channels")
"""The dims in the order in which they take digits; those that a model names come last."""


def primes(number: int) -> list[int]:
    """Return the prime factors in ascending order; an empty list for 1."""
    found, factor = [], 2
    while number > 1:
        while number % factor:
            factor += 1
        found.append(factor)
        number //= factor
    return found


@lru_cache(maxsize=16384)
def runs_of(choice: Choice, ways: int) -> tuple[tuple[str, int], ...]:
    """Return what the digits of a level divide under a choice, outermost first; digits beside each other as one run.

    The devices that work divide the ways.

    Examples:
        >>> runs_of(grid({"in_channels": 2, "batch": 2}), 8), runs_of(ALONE, 8)
        ((('batch', 2), ('in_channels', 2), ('idle', 2)), (('idle', 8),))
        >>> runs_of(grid({"batch": 3, "height": 2}), 12)
        (('height', 2), ('idle', 2), ('batch', 3))
    """
    if choice.order:
        return choice.order
    if len(choice.degrees) < 2 and choice.devices(ways) == ways:
        return ((next(iter(choice.divided), COPIES), ways),)
    digits = primes(ways)
    labels = [IDLE] * len(digits)
    for dim in sorted(choice.divided, key=(*ORDER, *choice.divided).index):
        for prime in primes(choice.degree(dim)):
            at = digits.index(prime)
            labels[labels.index(IDLE, at)] = dim
    return beside(zip(labels, digits, strict=True))


class Layout(NamedTuple):
    """The choices of a layer at a level, as arrays.

    Attributes:
        working: number of working devices, ``[choices]``.
        chosen: degree of each divided dim in each choice, ``[choices]``.
    """

    working: Numbers
    chosen: dict[str, Numbers]

    def degree(self, dim: str | None) -> Numbers:
        """Return the degree of a dim in each choice, ``[choices]``."""
        return self.chosen.get(dim or "", np.ones_like(self.working))


@lru_cache(maxsize=512)
def layout(choices: Options, ways: int) -> Layout:
    """Return the choices of a layer as arrays."""
    dims = dict.fromkeys(dim for choice in choices for dim in choice.divided)
    chosen = {dim: np.array([choice.degree(dim) for choice in choices]) for dim in dims}
    return Layout(np.array([choice.devices(ways) for choice in choices]), chosen)


def digits_of(choices: Sequence[Choice], ways: int) -> list[tuple[int, tuple[str, ...]]]:
    """Return the fewest digits of which each choice divides whole ones, outermost first: their ways, and what each choice divides.

    Raises:
        ValueError: there are none.

    Examples:
        >>> digits_of([numbered([("height", 2), ("batch", 4)]), cut("batch", 8)], 8)
        [(2, ('height', 'batch')), (4, ('batch', 'batch'))]
    """
    every = [runs_of(choice, ways) for choice in choices]
    ends = {runs: [*accumulate((degree for _, degree in runs), mul)] for runs in {*every}}
    found, before = [], 1
    for end in sorted({1}.union(*ends.values()))[1:]:
        if end % before:
            where = f"digits that end at {before:,} and at {end:,}"
            raise ValueError(f"found {where}; allowed: ends that divide each other")
        labels = {runs: runs[bisect_left(own, end)][0] for runs, own in ends.items()}
        found.append((end // before, tuple([labels[runs] for runs in every])))
        before = end
    return found


def choice_of(label: str, ways: int) -> Choice:
    """Return the choice that divides by all devices what a digit divides."""
    return {COPIES: WHOLE, IDLE: ALONE}.get(label) or cut(label, ways)


@lru_cache(maxsize=16384)
def degrees(chosen: Options, dims: tuple[str, ...] = CUTTABLE) -> tuple[int, ...]:
    """Return the product of the degrees of all levels, for each of some dims: a layer's ``counted``."""
    return tuple(math.prod(choice.degree(dim) for choice in chosen) for dim in dims)


@lru_cache(maxsize=16384)
def working(chosen: Options, array: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of groups that work for a layer above each level of an array, and that of devices."""
    each = (choice.devices(ways) for choice, ways in zip(chosen, array, strict=False))
    return tuple(accumulate(each, mul, initial=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One split of the array.

    Attributes:
        index: 0 for the outermost.
        array: ways of each level, outermost first.
        element_bytes: bytes of one element of any tensor.
    """

    index: int
    array: tuple[int, ...]
    element_bytes: int

    @property
    def ways(self) -> int:
        """Number of groups into which every group is split."""
        return self.array[self.index]

    @property
    def groups(self) -> int:
        """Number of identical groups that the level splits."""
        return math.prod(self.array[: self.index])

    @property
    def innermost(self) -> bool:
        """Whether the level splits groups into single devices."""
        return self.index == len(self.array) - 1

    def copies(self, sizes: LocalSizes, nest: Nest, tensor: str) -> Costs:
        """Return the copies of a layer's tensor that all groups above the level have, ``[..., tuples]``."""
        return math.prod((sizes.of(dim) for dim in nest.names[tensor]), start=self.groups * sizes.of(WORKING))


def levels_of(array: tuple[int, ...], element_bytes: int) -> tuple[Level, ...]:
    """Return all levels of an array, outermost first."""
    return tuple(Level(index=index, array=array, element_bytes=element_bytes) for index in range(len(array)))


@dataclass(frozen=True, eq=False, slots=True)
class LocalSizes:
    """Fractions of a layer that one group holds, for each tuple of choices of the levels above.

    Attributes:
        fractions: the remaining fraction of each quantity, ``[..., quantities, tuples]``; the last one is that of the groups.
        names: the quantities: dims of the layer, and ``WORKING``.
    """

    fractions: Costs
    names: tuple[str, ...] = (WORKING,)

    def of(self, quantity: str) -> Costs:
        """Return the remaining fraction of one of ``names``, ``[..., tuples]``; all of any other."""
        if quantity not in self.names:
            return np.ones_like(self.fractions[..., 0, :])
        left: Costs = self.fractions[..., self.names.index(quantity), :]
        return left

    def divided(self, nest: Nest, options: Options, ways: int) -> LocalSizes:
        """Return the sizes below a level of some ways, for each tuple above and each option of the level; few are one object."""
        # A search level by level asks for the same few ones again.
        few = self.fractions.shape[1] * len(options) <= 4
        return (_divided if few else _divided.__wrapped__)(self, nest.unsized, options, ways)


WHOLE_LAYER = LocalSizes(np.ones((1, 1)))
"""The sizes at the outermost level."""


@lru_cache(maxsize=4096)
def _divided(above: LocalSizes, roles: Nest, options: Options, ways: int) -> LocalSizes:
    grids, names = layout(options, ways), (*roles.counted, WORKING)
    before = above.fractions if names == above.names else np.stack([above.of(name) for name in names])
    divisors = np.stack([*map(grids.degree, roles.counted), ways / grids.working])
    return LocalSizes((before[:, :, None] / divisors[:, None, :]).reshape(len(names), -1), names)


def divided_size(size: float, share: float, *, integral: bool) -> Any:
    """Return a share of a size; a whole number if shares are of whole elements."""
    real = size * share
    whole = round(real)
    return whole if integral and math.isclose(real, whole, rel_tol=1e-9) else real


@lru_cache(maxsize=4096)
def divided_einsum(nest: Nest, dim: str, share: float, *, integral: bool) -> Nest:
    """Return a layer reduced to a share of one dim."""
    part, read = partial(divided_size, share=share, integral=integral), nest.input_sizes
    return replace(
        nest,
        sizes={**nest.sizes, dim: part(nest.sizes[dim])},
        input_elements=part(nest.input_elements) if dim in nest.names["input"] else nest.input_elements,
        input_sizes={**read, dim: part(read[dim])} if dim in read else read,
    )


def whole_ends(size: int, shares: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
    """Return the ends of shares in whole elements: as even as possible, or by the largest remainders of uneven shares.

    Examples:
        >>> whole_ends(7, [(0, 0.5), (0.5, 1)]), whole_ends(7, [(0, 0.3), (0.3, 1)])
        ([(0, 3), (3, 7)], [(0, 2), (2, 7)])
    """
    widths = [end - start for start, end in shares]
    if max(widths) - min(widths) > TINY and abs(sum(widths) - 1) < TINY:
        shares = [*pairwise(accumulate(whole_shares(size, widths), initial=0.0))]
    return [(int(start * size + TINY), int(end * size + TINY)) for start, end in shares]


def whole_shares(size: int, shares: Sequence[float]) -> tuple[float, ...]:
    """Round shares to whole elements, at least one each; return them as given if no such rounding exists.

    Elements left over by rounding down go to the largest remainders, the first of equal ones.
    """
    if size < len(shares) or not isinstance(size, int):
        return tuple(shares)
    counts = [max(1, math.floor(size * share)) for share in shares]
    while sum(counts) > size:
        counts[counts.index(max(counts))] -= 1
    rest = sorted(range(len(shares)), key=lambda group: counts[group] - size * shares[group])
    for group in rest[: size - sum(counts)]:
        counts[group] += 1
    return tuple(count / size for count in counts)
