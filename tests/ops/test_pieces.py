"""Kernels on pieces: together they compute the whole, from what they read and nothing else."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.execution.exchange import Mask
from hypar.ops.run import Arrays, Piece, Run
from hypar.ops.tape import Array, Unlike
from tests.effort import examples
from tests.ops.layers import CASES, NAMED, Bench, Gradients, backward, bench, forward, mask


@st.composite
def cuts(draw: st.DrawFn, run: Bench) -> list[Piece]:
    """Pieces that make up a layer: each index of a dim in one of up to three parts, of which some may be empty."""
    dims = dict(run.kernel.whole())
    if getattr(run.layer.op, "mode", "") == "average" and draw(st.booleans()):
        for dim in sorted(run.kernel.nest.reduced):
            dims[f"input_{dim}"] = np.arange(run.layer.input_shapes[0][dim])
    parts = {}
    for dim, every in dims.items():
        ways = draw(st.sampled_from([1, 1, 2, 3])) if divides(run, dim) else 1
        part = np.array(draw(st.lists(st.integers(0, ways - 1), min_size=len(every), max_size=len(every))))
        if draw(st.booleans()):
            part.sort()
        parts[dim] = [every[part == number] for number in range(ways)]
    return [dict(zip(parts, chosen, strict=True)) for chosen in product(*parts.values())]


def divides(run: Bench, dim: str) -> bool:
    """Whether devices may divide a dim; an op of whole samples is divided in the batch alone."""
    whole = {*run.kernel.nest.together, *run.kernel.nest.whole}
    return dim not in whole and (run.layer.op_name != "opaque" or dim == "batch")


def added(terms: Iterable[Array]) -> Array:
    stacked = np.stack(list(terms))
    return np.where(np.isnan(stacked).all(axis=0), np.nan, np.nansum(stacked, axis=0))


def all_added(terms: list[Mapping[str, Array]]) -> dict[str, Array]:
    return {name: added(term[name] for term in terms) for name in terms[0]}


def only(values: Array, held: Mask) -> Array:
    return np.where(held, values, np.nan)


class Devices:
    """A layer on one device for each piece, each with what its piece reads and nothing else."""

    def __init__(self, run: Bench, pieces: list[Piece]) -> None:
        self.run, self.pieces, self.layer, self.kernel = run, pieces, run.layer, run.kernel

    def outputs(self, piece: Piece) -> Mask:
        return mask(self.run.error.shape, self.kernel.output(piece))

    def inputs(self, piece: Piece) -> tuple[Array, ...]:
        reads = self.kernel.reads(piece)
        return tuple(only(value, read) for value, read in zip(self.run.inputs, reads, strict=True))

    def parameters(self, piece: Piece) -> dict[str, Array]:
        found = {}
        for name, own in self.kernel.nest.trained.items():
            boxes = [
                np.arange(axis.size) if axis.turns else piece.get(axis.dims[0], np.arange(axis.size))
                for axis in own.axes.values()
            ]
            if self.kernel.nest.weight and name == "bias":
                made = dict(zip(self.kernel.nest.result.axes, self.kernel.output(piece), strict=True))
                boxes = [made[axis] for axis in own.axes]
            found[name] = only(self.run.parameters[name], mask(own.shape, tuple(boxes)))
        return found

    def summed(self, sums: Mapping[str, Array], piece: Piece) -> dict[str, Array]:
        """What a device needs of the sums: the places of its piece, and those of the same groups."""
        return {
            name: only(value, mask(value.shape, self.places(name, piece))) for name, value in sums.items()
        }

    def places(self, name: str, piece: Piece) -> tuple[np.ndarray, ...]:
        own = self.kernel.nest.sums[name]
        found = {dim: piece[dim] for dim in own.dims}
        for dim, size in own.together.items():
            found[dim] = np.flatnonzero(np.isin(np.arange(self.layer.shape[dim]) // size, found[dim] // size))
        return tuple(found.values())

    def each(self, what: str, *arguments: Any) -> list[Any]:
        return [
            getattr(self.kernel, what)(self.inputs(piece), *[of(piece) for of in arguments])
            for piece in self.pieces
        ]


@pytest.mark.parametrize("case", [*CASES, *NAMED])
@given(seed=st.integers(0, 99), data=st.data())
@settings(max_examples=examples(50, 2), deadline=None)
def test_pieces_make_up_the_whole(case: str, seed: int, data: st.DataObject) -> None:
    run = bench(case, seed)
    make_up_the_whole(run, data.draw(cuts(run)))


def make_up_the_whole(run: Bench, pieces: list[Piece]) -> None:
    devices, whole = Devices(run, pieces), run.kernel.whole()

    def itself(piece: Piece) -> Piece:
        return piece

    def error(piece: Piece) -> Array:
        return only(run.error, devices.outputs(piece))

    sums = all_added(devices.each("sums", itself))
    needed = (devices.parameters, itself, lambda piece: devices.summed(sums, piece))
    terms = devices.each("forward", *needed)
    for piece, term in zip(devices.pieces, terms, strict=True):
        assert (np.isnan(term) == ~devices.outputs(piece)).all()
    total = added(terms)
    finished = [
        devices.kernel.finish(only(total, devices.outputs(piece)), devices.parameters(piece))
        for piece in devices.pieces
    ]
    expected = forward(run, run.inputs, run.parameters, whole)
    for piece, value in zip(devices.pieces, finished, strict=True):
        np.testing.assert_allclose(value, only(expected, devices.outputs(piece)), atol=1e-12)

    back_sums = all_added(devices.each("back_sums", devices.parameters, error, itself, needed[-1]))
    found = devices.each(
        "backward",
        devices.parameters,
        error,
        itself,
        needed[-1],
        lambda piece: devices.summed(back_sums, piece),
    )
    gradients = backward(run, whole)
    for number, back in enumerate(gradients.inputs):
        np.testing.assert_allclose(added(each.inputs[number] for each in found), back, atol=1e-12)
    for piece, each in zip(devices.pieces, found, strict=True):
        reads = devices.kernel.reads(piece)
        assert all((np.isnan(back) == ~read).all() for back, read in zip(each.inputs, reads, strict=True))
    for name in found[0].parameters.keys() - back_sums.keys() - {"bias"}:
        total = added(each.parameters[name] for each in found)
        np.testing.assert_allclose(total, gradients.parameters[name], atol=1e-12)
    if devices.kernel.nest.weight and "bias" in run.parameters:
        biases = [
            each.parameters["bias"]
            for piece, each in zip(devices.pieces, found, strict=True)
            if once(piece, devices)
        ]
        np.testing.assert_allclose(added(biases), gradients.parameters["bias"], atol=1e-12)
    for name in run.parameters.keys() & back_sums.keys():
        np.testing.assert_allclose(back_sums[name], gradients.parameters[name], atol=1e-12)


def once(piece: Piece, devices: Devices) -> bool:
    """Whether a piece's term of a bias's gradient counts: every part of what is contracted has the whole one."""
    contracted = {*piece} - {*devices.kernel.nest.result.dims}
    return all(piece[dim] is devices.pieces[0][dim] for dim in contracted)


def poked(values: Array, inside: Mask, data: st.DataObject) -> Array:
    places = np.argwhere(inside)
    place = places[data.draw(st.integers(0, len(places) - 1))]
    changed = values.copy()
    changed[tuple(place)] = np.nan
    return changed


def results(found: Gradients, reads: tuple[Mask, ...], held: Mapping[str, Array]) -> list[Array]:
    backs = [back[read] for back, read in zip(found.inputs, reads, strict=True)]
    return backs + [value[~np.isnan(held[name])] for name, value in found.parameters.items()]


@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
@settings(max_examples=examples(50, 2), deadline=None)
def test_what_is_missing_shows(case: str, data: st.DataObject) -> None:
    run = bench(case)
    devices = Devices(run, data.draw(cuts(run)))
    piece = data.draw(st.sampled_from(devices.pieces))
    layer, kernel, outputs = run.layer, run.kernel, devices.outputs(piece)
    reads, held, whole = kernel.reads(piece), devices.parameters(piece), kernel.whole()
    sums = kernel.sums(run.inputs, whole)
    back_sums = kernel.back_sums(run.inputs, run.parameters, run.error, whole, sums)
    if not outputs.any() or not any(read.any() for read in reads):
        return

    def made(inputs: tuple[Array, ...], parameters: Arrays, sums: Arrays) -> Array:
        terms = kernel.forward(inputs, parameters, piece, sums)
        return kernel.finish(terms, parameters)[outputs]

    def back(inputs: tuple[Array, ...], error: Array) -> list[Array]:
        found = kernel.backward(inputs, run.parameters, error, piece, sums, back_sums)
        return results(found, reads, held)

    number = data.draw(st.sampled_from([number for number, read in enumerate(reads) if read.any()]))
    bad = poked(run.inputs[number], reads[number], data)
    inputs = (*run.inputs[:number], bad, *run.inputs[number + 1 :])
    assert np.isnan(made(inputs, run.parameters, sums)).any()
    for name, value in kernel.sums(inputs, piece).items():
        assert np.isnan(value).sum() > np.isnan(kernel.sums(run.inputs, piece)[name]).sum()
    assert any(np.isnan(values).any() for values in back(run.inputs, poked(run.error, outputs, data)))
    others = back(tuple(0.1 - value for value in run.inputs), run.error)
    if any((one != other).any() for one, other in zip(back(run.inputs, run.error), others, strict=True)):
        assert any(np.isnan(values).any() for values in back(inputs, run.error))
    for name, value in run.parameters.items():
        bad = poked(value, ~np.isnan(held[name]), data)
        shows = np.isnan(made(run.inputs, {**run.parameters, name: bad}, sums)).any()
        other = {**run.parameters, name: np.where(np.isnan(bad), 1.1 - value, value)}
        same = (made(run.inputs, other, sums) == made(run.inputs, run.parameters, sums)).all()
        # A tap of a kernel of three dims is left out where it meets padding alone.
        assert shows or (layer.op_name == "conv3d" and same)
    for name, value in sums.items():
        wrong = {**sums, name: poked(value, ~np.isnan(devices.summed(sums, piece)[name]), data)}
        assert np.isnan(made(run.inputs, run.parameters, wrong)).any()


@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
@settings(max_examples=examples(50, 2), deadline=None)
def test_pieces_of_one_form_give_together_what_each_gives_alone(case: str, data: st.DataObject) -> None:
    run = bench(case)
    devices = Devices(run, data.draw(cuts(run)))
    kernel = run.kernel
    forms: dict[Hashable, list[Piece]] = {}
    sums = kernel.sums(run.inputs, kernel.whole())
    for piece in devices.pieces:
        forms.setdefault(kernel.run(piece).form, []).append(piece)
    first, *others = data.draw(st.sampled_from([*forms.values()]))
    others = others or [first]
    inputs = [devices.inputs(piece) for piece in (first, *others)]
    lacking = data.draw(st.integers(0, len(others)))
    inputs[lacking] = tuple(np.full(own.shape, np.nan) for own in inputs[lacking])
    held, known = map(devices.parameters, (first, *others)), (sums for _ in inputs)
    alone = [*zip((first, *others), inputs, held, known, strict=True)]

    def together(arrays: Iterable[Arrays]) -> Arrays:
        first, *others = arrays
        return {name: np.stack([own, *(other[name] for other in others)]) for name, own in first.items()}

    def each(made: Callable[..., Arrays]) -> Arrays:
        return together(
            made(kernel.run(piece, own, parameters=held, sums=sums)) for piece, own, held, sums in alone
        )

    def at_once() -> Run:
        _, every, held, known = zip(*alone, strict=True)
        stacked = [np.stack(own) for own in zip(*every, strict=True)]
        return kernel.run(first, stacked, others=others, parameters=together(held), sums=together(known))

    error = np.broadcast_to(run.error, (len(inputs), *run.error.shape))
    try:
        outputs, errors = at_once().forward(), at_once().backward(error)
    except Unlike:
        return
    np.testing.assert_allclose(outputs, each(lambda own: {"output": own.forward()})["output"], atol=1e-12)
    for name, values in each(lambda own: own.backward(run.error)).items():
        np.testing.assert_allclose(errors[name], values, atol=1e-12)
