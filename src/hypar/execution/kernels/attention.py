"""Attention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.execution.boxes import put, take
from hypar.execution.computing.kernel import Gradients, Kernel, output_shape
from hypar.execution.computing.products import boxed, letters
from hypar.network.einsum import operand_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.execution.boxes import Array, Box, Piece
    from hypar.execution.computing.kernel import Inputs, Parameters, Sums
    from hypar.network.layer import Layer


class _Parts(NamedTuple):
    """What both passes of a piece compute from.

    Attributes:
        letters: the letters of the inputs and of the output.
        scores: those of the scores.
        local: the elements of the inputs that the piece reads.
        shares: the softmax of the scores.
        further: the axes of the scores that the softmax runs over.
    """

    letters: tuple[str, ...]
    scores: str
    local: tuple[Array, ...]
    shares: Array
    further: tuple[int, ...]


class Attention(Kernel):
    """``softmax(Q K' / sqrt(d)) V``; of causal attention a query's scores of later keys are left out."""

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return boxed(layer, "output", piece)

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of each input that a piece reads."""
        return tuple(boxed(layer, tensor, piece) for tensor in _inputs(layer))

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the means of the values."""
        parts = self._parts(layer, inputs, piece, sums)
        values, made = parts.letters[2], parts.letters[-1]
        value = np.einsum(f"{parts.scores},{values}->{made}", parts.shares, parts.local[2], optimize=True)
        return put(output_shape(layer, inputs), self.output(layer, piece), value)

    def backward(
        self,
        layer: Layer,
        inputs: Inputs,
        parameters: Parameters,
        error: Array,
        piece: Piece,
        sums: Sums,
        back_sums: Sums,
    ) -> Gradients:
        """Return the terms of the errors of the queries, the keys and the values."""
        parts, own = self._parts(layer, inputs, piece, sums), take(error, self.output(layer, piece))
        values, made = parts.letters[2], parts.letters[-1]
        of_shares = self._of_shares(parts, own)
        if back_sums:
            mean = _of_queries(layer, back_sums["product"], piece)
        else:
            mean = (of_shares * parts.shares).sum(parts.further, keepdims=True)
        scores = parts.shares * (of_shares - mean) / self._root(layer)
        found = {2: np.einsum(f"{parts.scores},{made}->{values}", parts.shares, own, optimize=True)}
        for one, other in _pairs(len(inputs)):
            for at, by in ((one, other), (other, one)):
                how = f"{parts.scores},{parts.letters[by]}->{parts.letters[at]}"
                found[at] = np.einsum(how, scores, parts.local[by], optimize=True)
        triples = zip(inputs, self.boxes(layer, piece), (found[at] for at in sorted(found)), strict=True)
        return Gradients(tuple(put(whole.shape, box, value) for whole, box, value in triples), {})

    def sums(self, layer: Layer, inputs: Inputs, piece: Piece) -> dict[str, Array]:
        """Return the sums of the exponentials of each query's scores over the piece's keys."""
        _, _, exponentials, further = self._scores(layer, inputs, piece)
        return {"exponential": _summed(layer, exponentials.sum(further), piece, len(inputs[0]))}

    def back_sums(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the sums of the errors of each query's shares, times the shares, over the piece's keys."""
        parts, own = self._parts(layer, inputs, piece, sums), take(error, self.output(layer, piece))
        products = (self._of_shares(parts, own) * parts.shares).sum(parts.further)
        return {"product": _summed(layer, products, piece, len(inputs[0]))}

    @staticmethod
    def _of_shares(parts: _Parts, error: Array) -> Array:
        """Return the error of the shares."""
        values, made = parts.letters[2], parts.letters[-1]
        found: Array = np.einsum(f"{made},{values}->{parts.scores}", error, parts.local[2], optimize=True)
        return found

    def _parts(self, layer: Layer, inputs: Inputs, piece: Piece, sums: Sums) -> _Parts:
        """Return what both passes compute from; without sums over all keys the piece has them all."""
        scores, local, exponentials, further = self._scores(layer, inputs, piece)
        named = tuple(letters(layer, tensor) for tensor in (*_inputs(layer), "output"))
        total = (
            _of_queries(layer, sums["exponential"], piece)
            if sums
            else exponentials.sum(further, keepdims=True)
        )
        return _Parts(named, scores, local, exponentials / total, further)

    def _scores(
        self, layer: Layer, inputs: Inputs, piece: Piece
    ) -> tuple[str, tuple[Array, ...], Array, tuple[int, ...]]:
        """Return the letters of the scores, the elements that are read, the scores' exponentials and the axes of the keys.

        The largest score is not subtracted first, so that sums alone need all keys.
        """
        op: Any = layer.op
        einsum = layer.einsum(1)
        named = tuple(letters(layer, tensor) for tensor in _inputs(layer))
        known = {dim: chr(ord("a") + number) for number, dim in enumerate(einsum.sizes)}
        *scored, _ = einsum.products[0]
        scores = "".join(known[dim] for dim in scored)
        local = tuple(take(whole, box) for whole, box in zip(inputs, self.boxes(layer, piece), strict=True))
        value: Any = 0.0
        for one, other in _pairs(len(inputs)):
            how = f"{named[one]},{named[other]}->{scores}"
            value = value + np.einsum(how, local[one], local[other], optimize=True)
        value = value / self._root(layer)
        further = [dim for dim in scored if dim not in einsum.input]
        if op.causal:
            later = _places(layer, further, scored, piece) > _places(layer, op.over, scored, piece)
            value = np.where(later, -np.inf, value)
        axes = tuple(scored.index(dim) for dim in further)
        return scores, local, np.exp(value), axes

    @staticmethod
    def _root(layer: Layer) -> float:
        shapes = layer.input_shapes
        return math.sqrt(sum(tuple(shapes[one].values())[-1] for one, _ in _pairs(len(shapes))))


def _inputs(layer: Layer) -> tuple[str, ...]:
    """Return the names of its inputs."""
    return tuple(operand_name(number) for number in range(len(layer.inputs)))


def _pairs(inputs: int) -> tuple[tuple[int, int], ...]:
    """Return the numbers of the queries and the keys of each part of the features."""
    return ((0, 1), *((number, number + 1) for number in range(3, inputs, 2)))


def _summed(layer: Layer, local: Array, piece: Piece, batch: int) -> Array:
    """Return a number for each query of a piece as an array over all queries."""
    dims = _queries(layer)
    shape = (batch, *(layer.input_shapes[0][dim] for dim in dims[1:]))
    return put(shape, tuple(piece[dim] for dim in dims), local)


def _of_queries(layer: Layer, values: Array, piece: Piece) -> Array:
    """Return a number for each query of a piece so that it applies to scores."""
    local = take(values, tuple(piece[dim] for dim in _queries(layer)))
    further = len(layer.einsum(1).products[0]) - 1 - local.ndim
    return local.reshape(*local.shape, *[1] * further)


def _queries(layer: Layer) -> tuple[str, ...]:
    """Return the batch and the dims of the queries without their features."""
    return ("batch", *tuple(layer.input_shapes[0])[:-1])


def _places(layer: Layer, dims: Iterable[str], scored: Sequence[str], piece: Piece) -> Any:
    """Return the number of each position along some dims, the first outermost, so that it applies to scores."""
    place: Any = 0
    for dim in dims:
        own = piece[dim].reshape([-1 if dim == other else 1 for other in scored])
        place = place * layer.einsum(1).sizes[dim] + own
    return place


plugin: Kernel = Attention()
