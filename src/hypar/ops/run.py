"""One evaluation of an op's forward expression on a piece: the elements that it reads, the sums that it meets, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.ops.nest import operand_name
from hypar.ops.tape import Array, Indices, Taps, Var

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.ops.nest import Nest
    from hypar.ops.operands import Operand, Projection, Sum
    from hypar.ops.windows import Window

Mask = NDArray[np.bool_]
Box = tuple[Indices, ...]
Piece = Mapping[str, Indices]
Arrays = Mapping[str, Array]


class _Leaf(NamedTuple):
    """The elements of a tensor that a piece reads, and where they lie in it."""

    var: Var
    box: Box
    shapes: tuple[tuple[int, ...], tuple[int, ...]]


class Run:
    """One evaluation of an op's forward expression on a piece.

    Attributes:
        nest: the op.
        terms: the piece's terms of the sums that were met, each of the whole size of the sum.
    """

    def __init__(
        self,
        nest: Nest,
        piece: Piece,
        inputs: Sequence[Array] = (),
        parameters: Arrays | None = None,
        sums: Arrays | None = None,
        back_sums: Arrays | None = None,
    ) -> None:
        """Store what the device has; it has all terms of a sum that is not in ``sums``, and None is for sums that nobody knows yet."""
        self.nest, self.piece, self.inputs = nest, piece, inputs
        self.parameters, self.sums, self.back_sums = parameters or {}, sums, back_sums or {}
        self.terms: dict[str, Array] = {}
        self.leaves: dict[str, _Leaf] = {}

    def index(self, dim: str) -> Indices:
        """Return the indices of a loop dim that the piece has."""
        found = self.piece.get(dim)
        return np.arange(self.nest.sizes[dim]) if found is None else found

    def place(self, dim: str) -> Var:
        """Return the index of each element along a loop dim."""
        return Var((dim,), self.index(dim))

    def input(self, number: int = 0) -> Var:
        """Return the elements of an input that the piece reads, over loop dims."""
        return self._read(operand_name(number), self.nest.inputs[number], self.inputs[number])

    def parameter(self, name: str = "weight", *, shared: bool = True) -> Var:
        """Return the elements of a trained tensor that the piece reads; its gradient is a sum of the backward phase if shared."""
        own = self.nest.trained[name]
        return self._read(name, own, self.parameters[name], shared=shared and name in self.nest.sums)

    def _read(self, name: str, operand: Operand, whole: Array, *, shared: bool = False) -> Var:
        operand = self.nest.result if self.nest.view else operand
        box = self.box(operand)
        found = Var([f"{name} {axis}" for axis in operand.axes], take(whole.reshape(operand.shape), box))
        self.leaves[name] = _Leaf(found, box, (operand.shape, whole.shape))
        if shared:
            found = self._shared(name, found, box, operand.shape)
        slid = [axis for axis, own in operand.axes.items() if own.window is not None]
        for axis, own in operand.axes.items():
            if axis not in slid:
                found = self._along(found, f"{name} {axis}", axis, own)
        # What is contracted lies together, before and behind the taps of windows.
        kept = [dim for dim in found.dims if dim in self.nest.result.dims or dim.startswith(name)]
        found = found.ordered([*(dim for dim in found.dims if dim not in kept), *kept]) if slid else found
        for axis in reversed(slid):
            found = self._along(found, f"{name} {axis}", axis, operand.axes[axis])
        return found

    def _along(self, found: Var, label: str, axis: str, own: Projection) -> Var:
        """Return what was read with the loop dims of an axis in its place."""
        if own.window is not None:
            return found.windows(label, self._taps(axis, own), own.dims[:2], self._border)  # type: ignore[arg-type]
        sizes = {dim: len(self.index(dim)) for dim in own.dims}
        if own.turns:
            return found.gather(label, self._merged(own.dims) % own.size, own.dims)
        if self._part(own):
            inside = self.index(own.dims[0]) - own.first
            there = (inside >= 0) & (inside < own.size)
            return found.gather(label, np.where(there, there.cumsum() - 1, -1), own.dims)
        return found.split(label, sizes) if own.dims else found.renamed(**{label: axis})

    @property
    def _border(self) -> float:
        return -np.inf if self.nest.reduce == "max" else 0.0

    def box(self, operand: Operand) -> Box:
        """Return the indices along each axis of a tensor that the piece reads, or makes of the result."""
        return tuple(self._elements(axis, own) for axis, own in operand.axes.items())

    def _elements(self, axis: str, own: Projection) -> Indices:
        if own.window is not None:
            return self._taps(axis, own).elements
        if not own.dims or own.turns:
            return np.arange(own.size)
        if self._part(own):
            inside = self.index(own.dims[0]) - own.first
            return inside[(inside >= 0) & (inside < own.size)]
        return self._merged(own.dims).ravel()

    def _part(self, own: Projection) -> bool:
        """Return whether an axis is a part of a loop dim."""
        return len(own.dims) == 1 and self.nest.sizes[own.dims[0]] != own.size

    def _merged(self, dims: Sequence[str]) -> Indices:
        """Return the place of each index of some loop dims, the first outermost."""
        found: Any = 0
        for at, dim in enumerate(dims):
            own = self.index(dim).reshape([-1 if other == at else 1 for other in range(len(dims))])
            found = found * self.nest.sizes[dim] + own
        return np.asarray(found)

    def _taps(self, axis: str, own: Projection) -> Taps:
        assert own.window is not None  # noqa: S101 (asked for windows alone)
        found = reading(own.window, self.index(own.dims[0]), own.size)
        kept = self.piece.get(f"input_{axis}")
        return found if kept is None else within(found, kept)

    # Sums over devices

    def members(self, dim: str, size: int) -> Indices:
        """Return the indices of a dim whose sums a piece needs, where runs of some size need each other's."""
        own = self.index(dim)
        return (
            np.flatnonzero(np.isin(np.arange(self.nest.sizes[dim]) // size, own // size))
            if self.sums
            else own
        )

    def _ends(self, own: Sum) -> tuple[list[str], Box]:
        """Return the dims of a sum as a piece needs it, those with more than its own indices as ``members``, and its box."""
        dims = ["members" if dim in own.together else dim for dim in own.dims]
        return dims, tuple(
            self.members(dim, own.together[dim]) if dim in own.together else self.index(dim)
            for dim in own.dims
        )

    def total(self, name: str, terms: Var) -> Var:
        """Return a sum of the forward phase, of which a piece has terms."""
        own = self.nest.sums[name]
        terms, shape = terms.ordered(own.dims), tuple(self.nest.sizes[dim] for dim in own.dims)
        self.terms[name] = put(shape, tuple(map(self.index, own.dims)), terms.value)
        dims, box = self._ends(own)
        value = np.full(terms.value.shape, np.nan) if self.sums is None else terms.value
        if self.sums and name in self.sums:
            value = take(self.sums[name], box)
        at = tuple(np.searchsorted(every, self.index(dim)) for dim, every in zip(own.dims, box, strict=True))
        return Var(dims, value, (terms, lambda error: take(error, at)))

    def shared(self, name: str, value: Var) -> Var:
        """Return a value that all devices with some of its elements use: its error is a sum of the backward phase."""
        own = self.nest.sums[name]
        dims, box = self._ends(own)
        return self._shared(name, value.ordered(dims), box, tuple(self.nest.sizes[dim] for dim in own.dims))

    def _shared(self, name: str, value: Var, box: Box, shape: tuple[int, ...]) -> Var:
        def back(error: Array) -> Array:
            self.terms[name] = put(shape, box, error)
            return take(self.back_sums[name], box) if name in self.back_sums else error

        return Var(value.dims, value.value, (value, back))

    # Results

    def made(self, value: Var) -> Var:
        """Return the value with the axes of the op's output."""
        axes = self.nest.result.axes
        found = value.ordered(self.nest.result.dims)
        for axis, own in axes.items():
            found = found.merged(own.dims, f"output {axis}")
        return found

    def put(self, operand: Operand, value: Var) -> Array:
        """Return a value as an array of the whole size."""
        return put(operand.shape, self.box(operand), self.made(value).value)

    def gradient(self, name: str) -> Array:
        """Return the error of a tensor, of the whole size; 0 where nothing carries one back to what is read."""
        leaf = self.leaves[name]
        read, whole = leaf.shapes
        error = np.zeros(leaf.var.value.shape) if leaf.var.error is None else leaf.var.error
        return put(read, leaf.box, error).reshape(whole)


# Boxes: the elements of an array with given indices along each dim


def take(array: Array, box: Box) -> Array:
    """Return the elements of a box; a view where all indices are consecutive."""
    taken: Array = array[_index(box)]
    return taken


def put(shape: tuple[int, ...], box: Box, values: Array) -> Array:
    """Return an array of the whole size that holds values in a box and NaN elsewhere."""
    array = np.full(shape, np.nan)
    array[_index(box)] = values
    return array


def mask(shape: tuple[int, ...], box: Box) -> Mask:
    """Return which elements of an array lie in a box."""
    inside = np.zeros(shape, dtype=np.bool_)
    inside[_index(box)] = True
    return inside


def _index(box: Box) -> Any:
    """Return what selects a box: slices where all indices are consecutive, which is much faster."""
    slices = []
    for indices in box:
        size = len(indices)
        first = int(indices[0]) if size else 0
        if size and int(indices[-1]) - first + 1 != size:
            return np.ix_(*box)
        slices.append(slice(first, first + size))
    return tuple(slices)


# Taps: the elements that each output of a window reads


def reading(window: Window, outputs: Indices, size: int) -> Taps:
    """Return what outputs read among ``size`` input elements.

    Examples:
        >>> from hypar.ops.windows import TransposedWindow, Window
        >>> elements, places, _ = reading(Window(kernel=2, stride=2, padding=1), np.array([0, 2]), 5)
        >>> elements.tolist(), places.tolist()
        ([0, 3, 4], [[-1, 0], [1, 2]])
        >>> reading(TransposedWindow(kernel=3, stride=2), np.array([1, 2]), 2).places.tolist()
        [[-1, 0, -1], [1, -1, 0]]
    """
    return _reading(window, np.asarray(outputs, dtype=np.intp).tobytes(), size)


@lru_cache(maxsize=4096)
def _reading(window: Window, outputs: bytes, size: int) -> Taps:
    found = window.taps(size, np.frombuffer(outputs, dtype=np.intp))
    elements = np.unique(found[found >= 0])
    return _paired(elements, np.where(found < 0, -1, np.searchsorted(elements, found)))


def within(read: Taps, kept: Indices) -> Taps:
    """Return what outputs read of some input elements, as if the others were padding."""
    held = np.isin(read.elements, kept)
    places = np.append(np.where(held, held.cumsum() - 1, -1), -1)
    return _paired(read.elements[held], places[read.places])


def _paired(elements: Indices, index: Indices) -> Taps:
    met = [(np.flatnonzero(tap >= 0), tap[tap >= 0]) for tap in index.T]
    return Taps(elements, index, tuple((_selection(places), _selection(read)) for places, read in met))


def _selection(indices: Indices) -> Any:
    """Return a slice for evenly spaced indices, which is much faster, else the indices."""
    steps = np.diff(indices)
    if not len(indices) or (steps != steps[:1]).any() or not steps.all():
        return indices
    step = int(steps[0]) if len(steps) else 1
    return slice(int(indices[0]), int(indices[-1]) + 1, step)
