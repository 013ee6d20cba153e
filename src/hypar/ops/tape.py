"""Reverse-mode differentiation of expressions on arrays whose dims have names.

An op is written as a forward expression. Every ``Var`` knows the ones that it was made of, and how to carry an error back to
each; an error is found from those of what was made of it. Most values are computed where they are asked for first. Dims are
aligned by name, so arithmetic broadcasts whatever their order.

Arrays may have one axis more before their dims: the devices that compute an expression together, along which nothing is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Dims = tuple[str, ...]
Back = Callable[[Array], Array]


class Unlike(Exception):  # noqa: N818 (no error of anybody: each device computes alone instead)
    """What an expression asks for is not the same on all devices that compute it together."""


class Var:
    """An array over named dims.

    Attributes:
        dims: the name of each dim.
        value: the array, computed where it is asked for first; an error often needs that of operands alone.
        made_of: the arrays that it was made of, each with the function that carries an error of this one back to it.
    """

    __slots__ = ("_value", "dims", "made_of")

    def __init__(self, dims: Sequence[str], value: Any, *made_of: tuple[Var, Back]) -> None:
        self.dims: Dims = tuple(dims)
        self.made_of = made_of
        self._value: Any = value if callable(value) else np.asarray(value, dtype=np.float64)

    @property
    def value(self) -> Array:
        """The array."""
        if callable(self._value):
            self._value = self._value()
        found: Array = self._value
        return found

    @property
    def devices(self) -> tuple[int, ...]:
        """The number of devices that have an array each; nothing for one array."""
        return self.value.shape[: self.value.ndim - len(self.dims)]

    def __add__(self, other: Any) -> Var:
        ends = self, _as_var(other)
        dims = tuple(dict.fromkeys(dim for own in ends for dim in own.dims))

        def back(own: Var) -> tuple[Var, Back]:
            return own, lambda error: _einsum([Var(dims, error)], own.dims)

        return Var(dims, lambda: sum(aligned(own.dims, own.value, dims) for own in ends), *map(back, ends))

    def __sub__(self, other: Any) -> Var:
        return self + _as_var(other) * -1.0

    def __mul__(self, other: Any) -> Var:
        other = _as_var(other)
        return product((self, other), [*dict.fromkeys((*self.dims, *other.dims))])

    def __truediv__(self, other: Var) -> Var:
        return self * other.map(lambda x: 1 / x, lambda x: -1 / x**2)

    def map(self, value: Callable[[Array], Any], slope: Callable[[Array], Any]) -> Var:
        """Return a function of each element, given with its derivative; NaN where the element is."""

        def known(found: Any) -> Array:
            return np.where(np.isnan(self.value), np.nan, found)

        back = (self, lambda error: known(error * slope(self.value)))
        return Var(self.dims, lambda: known(value(self.value)), back)

    def exp(self) -> Var:
        """Return the exponential of each element."""
        return self.map(np.exp, np.exp)

    def constant(self) -> Var:
        """Return the same numbers, which carry no error back."""
        return Var(self.dims, lambda: self.value)

    def ordered(self, dims: Sequence[str]) -> Var:
        """Return it with its dims in another order."""
        order = [self.dims.index(dim) for dim in dims]
        back = sorted(range(len(order)), key=order.__getitem__)
        return Var(dims, lambda: _turned(self.value, order), (self, lambda error: _turned(error, back)))

    def sum(self, over: Sequence[str]) -> Var:
        """Return the sum over some dims; itself over none."""
        if not over:
            return self
        axes = tuple(self.dims.index(dim) - len(self.dims) for dim in over)
        kept = [dim for dim in self.dims if dim not in over]
        back = (self, lambda error: np.broadcast_to(np.expand_dims(error, axes), self.value.shape))
        return Var(kept, lambda: self.value.sum(axes), back)

    def max(self, over: Sequence[str]) -> Var:
        """Return the largest element over some dims, NaN above all numbers; the first of equal ones gets the error."""
        kept = [dim for dim in self.dims if dim not in over]
        turned, axis = self.ordered([*over, *kept]), len(self.devices)
        shape, behind = turned.value.shape, axis + len(over)
        flat = turned.value.reshape(*shape[:axis], math.prod(shape[axis:behind]), *shape[behind:])
        places = np.arange(flat.shape[axis]).reshape(-1, *[1] * len(kept))
        largest = (flat.argmax(axis, keepdims=True) == places).reshape(shape)
        return turned.map(lambda own: np.where(largest, own, 0.0), lambda _: largest).sum(over)

    def gather(self, dim: str, places: Indices, dims: Sequence[str], border: float = 0.0) -> Var:
        """Return its elements along a dim at an array of places over other dims; at -1 it is the border.

        Of several dims the first comes before all others, unless they are the dim itself in parts.
        """
        if places.ndim > len(dims):
            raise Unlike
        number, own, front = self.dims.index(dim), self.value, self.devices
        at = len(front) + number
        whole = np.array_equal(places.ravel(), np.arange(own.shape[at]))
        taps = int(places.ndim > 1 and places.size > 0 and not whole)
        names = (*dims[:taps], *self.dims[:number], *dims[taps:], *self.dims[number + 1 :])
        sides = own.shape[len(front) : at], own.shape[at + 1 :]
        shape = (*front, *places.shape[:taps], *sides[0], *places.shape[taps:], *sides[1])
        if whole:
            return Var(names, own.reshape(shape), (self, lambda error: error.reshape(own.shape)))
        before, pairs = (slice(None),) * at, _selections(places.tobytes(), len(places) if taps else 1)
        found = np.full((*front, len(pairs), *sides[0], places.size // len(pairs), *sides[1]), border)
        for each, (made, read) in zip(np.moveaxis(found, len(front), 0), pairs, strict=True):
            each[*before, made] = own[*before, read]

        def back(error: Array) -> Array:
            summed: Array = np.zeros(own.shape)
            parts = np.moveaxis(error.reshape(found.shape), len(front), 0)
            for each, (made, read) in zip(parts, pairs, strict=True):
                if isinstance(read, slice):
                    summed[*before, read] += each[*before, made]
                else:
                    np.add.at(summed, (*before, read), each[*before, made])
            return summed

        return Var(names, found.reshape(shape), (self, back))


@lru_cache(maxsize=1024)
def _selections(places: bytes, taps: int) -> list[list[Any]]:
    """Return what selects what each tap makes, and the elements that it reads; devices and phases of a layer ask for the same."""
    reads = np.frombuffer(places, dtype=np.intp).reshape(taps, -1)
    return [[selection(np.flatnonzero(read >= 0)), selection(read[read >= 0])] for read in reads]


def selection(indices: Indices) -> Indices | slice:
    """Return what selects indices of a dim: a slice where they are evenly spaced, which is much faster."""
    steps = np.diff(indices)
    if not len(indices) or (steps != steps[:1]).any() or (steps < 1).any():
        return indices
    return slice(int(indices[0]), int(indices[-1]) + 1, int(steps[0]) if len(steps) else 1)


def product(operands: Sequence[Var], dims: Sequence[str]) -> Var:
    """Return the product of some arrays, summed over all dims but some, which every one of them must be a dim of one."""
    made, read = tuple(dims), [own.dims for own in operands]
    kept = [{*made}.union(*read[:at], *read[at + 1 :]) for at in range(len(operands))]
    parts = [
        own.sum([dim for dim in own.dims if dim not in here])
        for own, here in zip(operands, kept, strict=True)
    ]

    def back(at: int) -> Back:
        return lambda error: _einsum([Var(made, error), *parts[:at], *parts[at + 1 :]], parts[at].dims)

    return Var(made, lambda: _einsum(parts, made), *((own, back(at)) for at, own in enumerate(parts)))


def _einsum(operands: Sequence[Var], made: Dims) -> Array:
    """Return a sum of products, as ``np.einsum`` with names of dims in place of letters."""
    # All dims are in the order of the largest array, which then is a matrix without a copy.
    largest = sorted([made, *(own.dims for own in operands)], key=len, reverse=True)
    every = [*dict.fromkeys(dim for dims in largest for dim in dims)]
    if len(every) == len(made):
        return reduce(np.multiply, (aligned(own.dims, own.value, made) for own in operands))
    ends: list[Any] = []
    for own in operands:
        numbers = [*map(every.index, own.dims)]
        ends += [_turned(own.value, np.argsort(numbers).tolist()), [..., *sorted(numbers)]]
    # A multiplication of matrices is faster than a loop where two arrays have dims of their own.
    first, last = ({*made} & {*operands[at].dims} for at in (0, -1))
    matrices = ["einsum_path", (0, 1)] if first - last and last - first else False
    path = True if len(operands) > 2 else matrices
    found: Array = np.einsum(*ends, [..., *map(every.index, made)], optimize=path)
    return found


def errors_of(result: Var, error: Array, parts: Iterable[Var]) -> list[Array | None]:
    """Return the derivative of a sum of a result's elements, each times its error, by the elements of parts of it; None for others."""
    known: dict[Var, Array | None] = {result: error}
    users: dict[Var, list[tuple[Var, Back]]] = {}
    every = [result]
    for own in every:
        for part, back in own.made_of:
            every += [part] if part not in users else []
            users.setdefault(part, []).append((own, back))

    def of(own: Var) -> Array | None:
        if own not in known:
            found = [back(error) for user, back in users.get(own, ()) if (error := of(user)) is not None]
            known[own] = sum(found[1:], found[0]) if found else None
        return known[own]

    return [*map(of, parts)]


def _as_var(value: Any) -> Var:
    return value if isinstance(value, Var) else Var((), value)


def aligned(own: Dims, array: Array, dims: Dims) -> Array:
    """Return an array whose dims are some of others, so that it applies to one over those."""
    if own == dims:
        return array
    turned = _turned(array, sorted(range(len(own)), key=lambda at: dims.index(own[at])))
    return turned[..., *(slice(None) if dim in own else None for dim in dims)]


def _turned(array: Array, order: Sequence[int]) -> Array:
    front = array.ndim - len(order)
    return array.transpose(*range(front), *(front + at for at in order))
