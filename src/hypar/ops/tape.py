"""Reverse-mode differentiation of expressions on arrays whose dims have names.

An op is written as a forward expression. Every ``Var`` knows the ones that it was made of, and how to carry an error back to
each; ``differentiate`` walks them backwards. Dims are aligned by name, so arithmetic broadcasts whatever their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Dims = tuple[str, ...]
Back = Callable[[Array], Array]


class Taps(NamedTuple):
    """What some outputs of a window read along one dim.

    Attributes:
        elements: the input elements that any of the outputs reads, sorted.
        places: position in ``elements`` of each tap, ``[outputs, kernel]``; -1 where a tap meets padding.
        pairs: for each tap of the kernel the outputs whose tap meets no padding, and the positions of what they read; as
            slices where both are evenly spaced.
    """

    elements: Indices
    places: Indices
    pairs: tuple[tuple[Any, Any], ...]


class Var:
    """An array over named dims.

    Attributes:
        dims: the name of each dim.
        value: the array.
        made_of: the arrays that it was made of, each with the function that carries an error of this one back to it.
        error: the derivative of what was differentiated by each element.
    """

    __slots__ = ("dims", "error", "made_of", "value")

    def __init__(self, dims: Sequence[str], value: Any, *made_of: tuple[Var, Back]) -> None:
        self.dims: Dims = tuple(dims)
        self.value: Array = np.asarray(value, dtype=np.float64)
        self.made_of = made_of
        self.error: Array | None = None

    def __add__(self, other: Any) -> Var:
        return _binary(np.add, lambda error, _, __: error, lambda error, _, __: error, self, other)

    def __sub__(self, other: Any) -> Var:
        return _binary(np.subtract, lambda error, _, __: error, lambda error, _, __: -error, self, other)

    def __mul__(self, other: Any) -> Var:
        return _binary(np.multiply, lambda error, _, y: error * y, lambda error, x, _: error * x, self, other)

    def __truediv__(self, other: Any) -> Var:
        return _binary(
            np.divide, lambda error, _, y: error / y, lambda error, x, y: -error * x / y**2, self, other
        )

    def map(self, value: Callable[[Array], Any], slope: Callable[[Array], Any]) -> Var:
        """Return a function of each element, given with its derivative; NaN where the element is."""
        own, missing = self.value, np.isnan(self.value)
        found = np.where(missing, np.nan, value(own))
        return Var(self.dims, found, (self, lambda error: np.where(missing, np.nan, error * slope(own))))

    def exp(self) -> Var:
        """Return the exponential of each element."""
        found = np.exp(self.value)
        return Var(self.dims, found, (self, lambda error: error * found))

    def root(self) -> Var:
        """Return the square root of each element."""
        found = np.sqrt(self.value)
        return Var(self.dims, found, (self, lambda error: error / (2 * found)))

    def constant(self) -> Var:
        """Return the same numbers, which carry no error back."""
        return Var(self.dims, self.value)

    def renamed(self, **names: str) -> Var:
        """Return the same numbers with other names of dims."""
        return Var([names.get(dim, dim) for dim in self.dims], self.value, (self, lambda error: error))

    def ordered(self, dims: Sequence[str]) -> Var:
        """Return it with its dims in another order."""
        order = [self.dims.index(dim) for dim in dims]
        back = np.argsort(order)
        return Var(dims, self.value.transpose(order), (self, lambda error: error.transpose(back)))

    def sum(self, over: Sequence[str]) -> Var:
        """Return the sum over some dims."""
        axes, shape = tuple(self.dims.index(dim) for dim in over), self.value.shape
        return Var(
            [dim for dim in self.dims if dim not in over],
            self.value.sum(axes),
            (self, lambda error: np.broadcast_to(np.expand_dims(error, axes), shape)),
        )

    def max(self, over: Sequence[str]) -> Var:
        """Return the largest element over some dims, NaN above all numbers; the first of equal ones gets the error."""
        kept = [dim for dim in self.dims if dim not in over]
        first = self.ordered([*over, *kept]).merged(over, "places")
        at = first.value.argmax(0)[None]
        value = np.take_along_axis(first.value, at, 0)[0]

        def back(error: Array) -> Array:
            found: Array = np.zeros(first.value.shape)
            np.put_along_axis(found, at, np.where(np.isnan(value), np.nan, error)[None], 0)
            return found

        return Var(kept, value, (first, back))

    def merged(self, dims: Sequence[str], name: str) -> Var:
        """Return it with dims beside each other as one."""
        at, shape = self.dims.index(dims[0]), self.value.shape
        sizes = (*shape[:at], math.prod(shape[at : at + len(dims)]), *shape[at + len(dims) :])
        names = (*self.dims[:at], name, *self.dims[at + len(dims) :])
        return Var(names, self.value.reshape(sizes), (self, lambda error: error.reshape(shape)))

    def split(self, dim: str, sizes: dict[str, int]) -> Var:
        """Return it with a dim as several, the first outermost."""
        at, shape = self.dims.index(dim), self.value.shape
        names = (*self.dims[:at], *sizes, *self.dims[at + 1 :])
        value = self.value.reshape(*shape[:at], *sizes.values(), *shape[at + 1 :])
        return Var(names, value, (self, lambda error: error.reshape(shape)))

    def gather(self, dim: str, index: Indices, dims: Sequence[str]) -> Var:
        """Return its elements along a dim at an array of indices over other dims; -1 reads 0."""
        at = self.dims.index(dim)
        padded = np.concatenate(
            [np.moveaxis(self.value, at, 0), np.zeros((1, *np.delete(self.value.shape, at)))]
        )
        names = (*dims, *(own for own in self.dims if own != dim))

        def back(error: Array) -> Array:
            found: Array = np.zeros(padded.shape)
            np.add.at(found, index, error)
            return np.moveaxis(found[:-1], 0, at)

        return Var(names, padded[index], (self, back))

    def windows(self, dim: str, taps: Taps, dims: tuple[str, str], border: float = 0.0) -> Var:
        """Return what each output reads along a dim, which becomes outputs, by tap, the first dim; ``border`` is the padding."""
        at, value, (outputs, tap) = self.dims.index(dim), self.value, dims
        before: tuple[Any, ...] = (slice(None),) * at
        places, kernel = taps.places.shape
        found: Array = np.full((kernel, *value.shape[:at], places, *value.shape[at + 1 :]), border)
        for number, (made, read) in enumerate(taps.pairs):
            found[number][(*before, made)] = value[(*before, read)]

        def back(error: Array) -> Array:
            summed: Array = np.zeros(value.shape)
            for number, (made, read) in enumerate(taps.pairs):
                if isinstance(read, slice):
                    summed[(*before, read)] += error[number][(*before, made)]
                else:
                    np.add.at(summed, (*before, read), error[number][(*before, made)])
            return summed

        return Var((tap, *self.dims[:at], outputs, *self.dims[at + 1 :]), found, (self, back))


def product(operands: Sequence[Var], dims: Sequence[str]) -> Var:
    """Return the product of some arrays, summed over all dims but some, which every one of them must be a dim of one."""
    first, *others = operands
    while others:
        second, *others = others
        later = {*dims}.union(*(own.dims for own in others))
        first = _contracted(first, second, later)
    over = [dim for dim in first.dims if dim not in dims]
    return (first.sum(over) if over else first).ordered(dims)


def differentiate(result: Var, error: Array) -> None:
    """Give every array that a result was made of its error, from the result's own."""
    order: list[Var] = []
    seen: set[int] = set()
    waiting = [(result, False)]
    while waiting:
        own, done = waiting.pop()
        if done:
            order.append(own)
        elif id(own) not in seen:
            seen.add(id(own))
            waiting += [(own, True), *((part, False) for part, _ in own.made_of)]
    result.error = error
    for own in reversed(order):
        for part, back in own.made_of:
            found = back(own.error)  # type: ignore[arg-type]  # a result's before those of its parts
            part.error = found if part.error is None else part.error + found


def _binary(function: Any, by_first: Any, by_second: Any, first: Var, second: Any) -> Var:
    """Return a function of the elements of two arrays, with its derivatives by each as functions of error and elements."""
    second = second if isinstance(second, Var) else Var((), second)
    longer, other = sorted((first, second), key=lambda own: -len(own.dims))
    dims = (*longer.dims, *(dim for dim in other.dims if dim not in longer.dims))
    x, y = _aligned(first, dims), _aligned(second, dims)
    return Var(
        dims,
        function(x, y),
        (first, lambda error: _reduced(by_first(error, x, y), dims, first)),
        (second, lambda error: _reduced(by_second(error, x, y), dims, second)),
    )


def _aligned(own: Var, dims: Dims) -> Array:
    """Return an array whose dims are some of others, so that it applies to one over those."""
    order = sorted(range(len(own.dims)), key=lambda at: dims.index(own.dims[at]))
    return np.expand_dims(
        own.value.transpose(order), tuple(at for at, dim in enumerate(dims) if dim not in own.dims)
    )


def _reduced(error: Array, dims: Dims, own: Var) -> Array:
    """Return the transpose of ``_aligned``."""
    summed = error.sum(tuple(at for at, dim in enumerate(dims) if dim not in own.dims))
    kept = [dim for dim in dims if dim in own.dims]
    return np.asarray(summed).transpose([kept.index(dim) for dim in own.dims])


def _contracted(one: Var, two: Var, kept: set[str]) -> Var:
    """Return the product of two arrays, summed over the dims of both that are not kept."""
    dims = tuple(
        dim
        for dim in dict.fromkeys((*one.dims, *two.dims))
        if dim in kept or (dim in one.dims) != (dim in two.dims)
    )
    return Var(
        dims,
        _matmul((one.dims, one.value), (two.dims, two.value), dims),
        (one, lambda error: _matmul((dims, error), (two.dims, two.value), one.dims)),
        (two, lambda error: _matmul((dims, error), (one.dims, one.value), two.dims)),
    )


def _matmul(one: tuple[Dims, Array], two: tuple[Dims, Array], made: Dims) -> Array:
    """Return a sum of products as a multiplication of matrices for each index of the dims that all three have."""
    if next((dim for dim in made if (dim in one[0]) != (dim in two[0])), None) in two[0]:
        one, two = two, one  # so that the product lies as it is asked for
    names, others = one[0], two[0]
    each = [dim for dim in made if dim in names and dim in others]
    left = [dim for dim in made if dim in names and dim not in others]
    right = [dim for dim in made if dim in others and dim not in names]
    larger = names if one[1].size > two[1].size else others
    inner = [dim for dim in larger if dim in names and dim in others and dim not in made]
    sizes = dict(zip((*names, *others), (*one[1].shape, *two[1].shape), strict=True))
    order = (*each, *left, *right)
    value = _matrices(one, each, left, inner) @ _matrices(two, each, inner, right)
    return value.reshape([sizes[dim] for dim in order]).transpose([order.index(dim) for dim in made])


def _matrices(own: tuple[Dims, Array], *groups: list[str]) -> Array:
    """Return an array with its dims in groups, each as one; without a copy where the dims of each group lie together."""
    dims, array = own
    there = sorted(range(len(groups)), key=lambda at: [dims.index(dim) for dim in groups[at]])
    ordered = array.transpose([dims.index(dim) for at in there for dim in groups[at]])
    shape = iter(ordered.shape)
    found = ordered.reshape([math.prod(next(shape) for _ in groups[at]) for at in there])
    return found.transpose([there.index(at) for at in range(len(groups))])
