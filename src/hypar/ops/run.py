"""What a device computes of a layer: the op's forward expression on a piece, and its errors by differentiation.

A *piece* has the indices of each loop dim that a device works on, sorted; a dim that it does not name is whole, as that of
the taps of a window. An average may have ``input_height`` and ``input_width`` besides: the input rows and columns whose terms
this device adds up, where an image is cut below a window that covers several devices.

Operands and results are float64 arrays of the whole size of their tensor, with NaN wherever a device holds nothing, so that a
missing element shows as NaN in the result. Nothing is moved here; whoever runs a piece adds up terms and sums over devices.
Devices whose pieces have one *form* may be run together: every array then has them in front, each with its own elements.
An input's error covers exactly the elements that the piece reads; elements that no piece reads get no error from anybody.

Where ops leave a choice they do as PyTorch does by default: padding is zero, of a max pool less than everything, and counts
in an average's divisor, but for what hangs over the padding by ``rounding: up``; the first of equal maxima gets the error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from hypar.ops.nest import Nest, Operand, Projection
from hypar.ops.tape import Array, Indices, Unlike, Var, errors_of
from hypar.ops.windows import Window, round_of

Box = tuple[Indices, ...]
Boxes = Sequence[Box]
Piece = Mapping[str, Indices]
Arrays = Mapping[str, Array]


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """One evaluation of an op's forward expression on a piece.

    Attributes:
        value: the expression of the op.
        nest: its loop nest.
        pieces: the piece, or those of all devices that run together.
        arrays: the operands by name.
        sums: the sums of all devices; a device has all terms of one that is missing, or is asked for its terms alone.
        back_sums: those of the backward phase.
        terms: the piece's terms of the sums of the forward phase that were met, each of the whole size of the sum.
        met: for those of the backward phase what all devices share, with the tensor that it is a part of.
        leaves: for each operand what was read, likewise.
    """

    value: Callable[[Run], Var]
    nest: Nest
    pieces: Sequence[Piece]
    arrays: Arrays = field(default_factory=dict)
    sums: Arrays = field(default_factory=dict)
    back_sums: Arrays = field(default_factory=dict)
    terms: dict[str, Array] = field(default_factory=dict)
    met: dict[str, tuple[Var, Operand]] = field(default_factory=dict)
    leaves: dict[str, tuple[Var, Operand]] = field(default_factory=dict)

    # Results

    def forward(self) -> Array:
        """Return the output's elements; where dims are contracted the piece's terms, without the bias."""
        made, boxes = self.value(self).ordered(self.nest.result.dims), self.boxes(self.nest.result)
        return put(self.nest.result.shape, made.value.reshape(*made.devices, *map(len, boxes[0])), *boxes)

    def backward(self, error: Array) -> dict[str, Array]:
        """Return the piece's terms of each operand's error, by its name; whole gradients where ``back_sums`` has their sums."""
        made = self.value(self)
        biased = "bias" in self.nest.operands and self.nest.weight
        found = self._errors(made + self.read("bias") if biased else made, error, self.leaves)
        return {"input": found["input"].reshape(self.arrays["input"].shape)} if self.nest.view else found

    def statistics(self, error: Array | None = None) -> dict[str, Array]:
        """Return the piece's terms of the sums of the forward phase; with an error of the output of the backward phase."""
        made = self.value(self)
        return self.terms if error is None else self._errors(made, error, self.met)

    def _errors(self, made: Var, error: Array, parts: Mapping[str, tuple[Var, Operand]]) -> dict[str, Array]:
        """Return the errors of parts of tensors, each of the whole size; 0 where nothing carries one back."""
        output, found, dims = take(error, *self.boxes(self.nest.result)), {}, self.nest.result.dims
        sizes = [len(self._index(dim, self.pieces[0])) for dim in dims]
        output = output.reshape(*output.shape[: len(self.pieces) > 1], *sizes)
        backs = errors_of(made.ordered(dims), output, [own for own, _ in parts.values()])
        for back, (name, (own, whole)) in zip(backs, parts.items(), strict=True):
            errors = np.zeros(own.value.shape) if back is None else back
            found[name] = put(whole.shape, errors, *self.boxes(whole))
        return found

    @property
    def form(self) -> Hashable:
        """What is the same of pieces that may be run together: how many indices they have, and their places in what is read."""
        operands = () if self.nest.view else self.nest.operands.values()
        axes = [axis for operand in (*operands, self.nest.result) for axis in operand.axes.items()]
        places = [self._axis(axis, own, self.pieces[0])[1] for axis, own in axes]
        sizes = tuple((dim, len(own)) for dim, own in self.pieces[0].items())
        return sizes, tuple(own.tobytes() for own in places if own is not None)

    # What an expression reads

    def index(self, dim: str) -> Indices:
        """Return the indices of a loop dim that the piece has; raises ``Unlike`` if others have other ones."""
        found, *others = (self._index(dim, piece) for piece in self.pieces)
        if any((own != found).any() for own in others):
            raise Unlike
        return found

    def _index(self, dim: str, piece: Piece) -> Indices:
        found = piece.get(dim)
        return np.arange(self.nest.sizes[dim]) if found is None else found

    def place(self, dim: str) -> Var:
        """Return the index of each element along a loop dim."""
        return Var((dim,), self.index(dim))

    def read(self, name: str, *, shared: bool = True) -> Var:
        """Return the elements of an operand that the piece reads; a gradient that is summed over devices is so if ``shared``."""
        operand = self.nest.result if self.nest.view else self.nest.operands[name]
        dims, gathers, whole = [], [], self.arrays[name]
        for axis, own in operand.axes.items():
            _, at = self._axis(axis, own, self.pieces[0])
            dims.append((*own.dims, axis)[0] if at is None else f"{name} {axis}")
            gathers += [(dims[-1], at, own)] if at is not None else []
        front = whole.shape[:1] if len(self.pieces) > 1 else ()
        found = Var(dims, take(whole.reshape(*front, *operand.shape), *self.boxes(operand)))
        self.leaves[name] = found, operand
        if shared and name in self.nest.sums:
            found = self._shared(name, found, operand)
        slid = {dim for dim, _, own in gathers if own.window}
        for dim, at, own in sorted(gathers, key=lambda gather: gather[0] in slid):
            if own.window:
                # What is contracted lies together, before and behind the taps of windows.
                kept = [dim for dim in found.dims if dim in self.nest.result.dims or dim in slid]
                found = found.ordered([*(dim for dim in found.dims if dim not in kept), *kept])
            border = -np.inf if self.nest.reduce == "max" else 0.0
            found = found.gather(dim, at, own.dims[::-1] if own.window else own.dims, border)
        return found

    def boxes(self, operand: Operand) -> Boxes:
        """Return the indices along each axis of a tensor that each piece reads, or makes of the result."""
        axes = operand.axes.items()
        return [tuple(self._axis(axis, own, piece)[0] for axis, own in axes) for piece in self.pieces]

    def _axis(self, axis: str, own: Projection, piece: Piece) -> tuple[Indices, Indices | None]:
        """Return the indices along an axis that a piece reads, and the places of its dims in these; None for one after another."""
        if own.window is not None:
            made, kept = self._index(own.dims[0], piece), piece.get(f"input_{axis}")
            ends = made.tobytes(), own.size, None if kept is None else kept.tobytes()
            read, places = reading(own.window, *ends)
            return read, places.T if len(own.dims) > 1 else places[:, 0]
        index = [self._index(dim, piece) for dim in own.dims]
        if len(own.dims) < 2 and not own.turns:
            return index[0] if own.dims else np.arange(own.size), None
        found: Any = 0
        for dim, at in zip(own.dims, np.ix_(*index), strict=True):
            found = found * self.nest.sizes[dim] + at
        if own.turns:
            return np.arange(own.size), found % own.size
        return found.ravel(), np.arange(found.size).reshape(found.shape)

    # Sums over devices

    def total(self, name: str, terms: Var) -> Var:
        """Return a sum of the forward phase, of which a piece has terms."""
        whole = self._sum(name)
        terms = terms.ordered(whole.dims)
        self.terms[name] = put(whole.shape, terms.value, *self.boxes(whole))
        known = self.sums if name in self.sums else self.terms
        return Var(terms.dims, self._known(name, known[name], whole), (terms, lambda error: error))

    def shared(self, name: str, value: Var) -> Var:
        """Return a value that all devices with some of its elements use: its error is a sum of the backward phase."""
        whole = self._sum(name)
        return self._shared(name, value.ordered(whole.dims), whole)

    def _sum(self, name: str) -> Operand:
        return Operand.of({dim: dim for dim in self.nest.sums[name].dims}, self.nest.sizes)

    def _shared(self, name: str, value: Var, whole: Operand) -> Var:
        def back(error: Array) -> Array:
            sums = self.back_sums.get(name)
            return error if sums is None else self._known(name, sums, whole)

        found = Var(value.dims, lambda: value.value, (value, back))
        self.met[name] = found, whole
        return found

    def _known(self, name: str, sums: Array, whole: Operand) -> Array:
        """Return the pieces' parts of known sums, to each of which those of the indices together with its own are added."""
        own = self.nest.sums[name]
        for dim, count in own.together.items():
            at = own.dims.index(dim) - len(own.dims)
            sums = np.add.reduceat(sums, np.arange(0, sums.shape[at], count), at).repeat(count, at)
        return take(sums, *self.boxes(whole))


def shares(run: Run, exponentials: Var, over: Sequence[str]) -> Var:
    """Return exponentials over their sums over some dims, which all devices with some of these share."""
    total = run.total("exponential", exponentials.sum(over))
    return exponentials * run.shared("product", Var((), 1.0) / total)


def chosen(run: Run, positions: Var, experts: str, taken: int) -> Var:
    """Return 1 where a position of a sample goes to an expert by the even routing, and 0 elsewhere."""
    count = run.nest.sizes[experts]
    turn, place = (Var(positions.dims, own) for own in np.divmod(positions.value, round_of(count, taken)))
    behind = run.place(experts) - run.place("batch") - turn
    unlike = Var(behind.dims, behind.value % count // taken) - place
    return Var(unlike.dims, unlike.value == 0)


# Boxes: the elements of an array with given indices along each dim


def take(array: Array, *boxes: Box) -> Array:
    """Return the elements of a box; of several ones those of the box of each array before one another."""
    if len(boxes) > 1:
        return np.stack([take(own, box) for own, box in zip(array, boxes, strict=True)])
    return np.asarray(array[_index(boxes[0])])


def put(shape: tuple[int, ...], values: Array, *boxes: Box) -> Array:
    """Return an array of the whole size that holds values in a box and NaN elsewhere; of several boxes one for each."""
    found = np.full((len(boxes), *shape), np.nan)
    for array, own, box in zip(found, values if len(boxes) > 1 else [values], boxes, strict=True):
        array[_index(box)] = own
    return found if len(boxes) > 1 else np.asarray(found[0])


def _index(box: Box) -> Any:
    """Return what selects a box: slices where all indices are consecutive, which is much faster."""
    if any(len(own) and int(own[-1]) - int(own[0]) + 1 != len(own) for own in box):
        return np.ix_(*box)
    return tuple(slice(int(own[0]), int(own[-1]) + 1) if len(own) else slice(0) for own in box)


def uniform(sample: Iterable[int], box: Box) -> Array:
    """Return a random number from 0 to 1 for each element of a box of samples of some sizes, in every box the same.

    Examples:
        >>> whole = uniform([3], (np.arange(4), np.arange(3)))
        >>> bool((uniform([3], (np.arange(1, 3), np.array([0, 2]))) == whole[1:3, ::2]).all())
        True
    """
    shape = (1 + box[0].max(initial=-1), *sample)
    return np.asarray(np.random.default_rng(2**32).random(shape)[np.ix_(*box)])


@lru_cache(maxsize=1024)
def reading(window: Window, outputs: bytes, size: int, kept: bytes | None = None) -> tuple[Indices, Indices]:
    """Return the elements that any of some outputs reads of ``size``, and the place of each tap in these, ``[outputs, kernel]``.

    A tap that meets padding has place -1; if some elements are kept the others are padding. Indices are given by their bytes, as
    devices and phases of a layer ask for the same.
    """
    found = window.taps(size, np.frombuffer(outputs, np.intp))
    met = found >= 0 if kept is None else np.isin(found, np.frombuffer(kept, np.intp))
    elements = np.unique(found[met])
    return elements, np.where(met, np.searchsorted(elements, found), -1)
