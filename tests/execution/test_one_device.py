"""The program of one device, which verification holds others against, computes what finite differences of its loss say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hypar.execution.compute import loss
from hypar.execution.devices import Devices, Parameters, Start, start
from hypar.execution.exchange import add, copy, counted, mask
from hypar.execution.simulator import run
from hypar.execution.verify import LEARNING_RATE, alone
from hypar.network.graph import LayerGraph, load_model
from hypar.program.holding import Holding
from hypar.sharding.layout import Places
from tests.effort import examples
from tests.ops.layers import bench
from tests.program.arrays import array_places
from tests.program.networks import networks
from tests.transformers import gpt, llama, mixtral, unet

LAYERS: list[dict[str, Any]] = [
    {"op": "input", "channels": 2, "height": 8, "width": 8},
    {"name": "stem", "op": "conv", "out_channels": 4, "kernel": 3, "padding": 1, "bias": False},
    {"op": "batch_norm"},
    {"name": "left", "op": "relu"},
    {"op": "pool", "mode": "max", "kernel": 3, "stride": 2, "padding": 1},
    {"name": "grouped", "op": "conv", "out_channels": 4, "kernel": 3, "padding": 1, "groups": 2},
    {"op": "pointwise", "function": "gelu"},
    {"name": "wide", "op": "upsample", "mode": "bilinear", "scale": 2},
    {"name": "narrow", "op": "conv", "out_channels": 4, "kernel": 1, "stride": 2, "inputs": "left"},
    {"name": "up", "op": "conv_transpose", "out_channels": 4, "kernel": 2, "stride": 2},
    {"name": "sum", "op": "add", "inputs": ["wide", "up", "left"]},
    {"name": "both", "op": "concat", "inputs": ["sum", "left"]},
    {"op": "crop", "margin": 1},
    {"op": "pointwise", "function": "lrn"},
    {"op": "dropout", "probability": 0.2},
    {"op": "pool", "mode": "average", "kernel": 2},
    {"op": "flatten"},
    {"name": "fc", "op": "linear", "out_features": 5},
]


def network(*, softmax: bool, batch: int = 3) -> LayerGraph:
    layers = [*LAYERS, *([{"op": "softmax"}] if softmax else [])]
    return load_model({"source": "an example", "batch": batch, "layers": layers})


def step(graph: LayerGraph, begin: Start) -> Devices:
    return run(alone(graph), [begin])


def moved(held: Parameters, along: Parameters, by: float) -> Parameters:
    return {
        layer: {name: own + by * along[layer].get(name, 0.0) for name, own in values.items()}
        for layer, values in held.items()
    }


def slope(graph: LayerGraph, begin: Start, along: Parameters, by: float = 1e-5) -> float:
    there, back = (
        step(graph, begin._replace(parameters=moved(begin.parameters, along, sign * by))).loss
        for sign in (1, -1)
    )
    return (there - back) / (2 * by)


def direction(begin: Start, seed: int) -> Parameters:
    random = np.random.default_rng(seed)
    return {
        layer: {name: random.normal(size=own.shape) for name, own in values.items()}
        for layer, values in begin.parameters.items()
    }


def product(found: Devices, along: Parameters) -> float:
    names = {f"{layer}.{name}": own for layer, values in along.items() for name, own in values.items()}
    return sum(float((own[0] * names[name]).sum()) for name, own in found.gradients.items())


@pytest.mark.parametrize("softmax", [True, False])
def test_every_gradient_is_that_of_finite_differences(*, softmax: bool) -> None:
    graph = network(softmax=softmax)
    begin = start(graph, 1)
    found = step(graph, begin)
    for layer, values in direction(begin, 2).items():
        for name, own in values.items():
            along = {other: {name: own} if other == layer else {} for other in begin.parameters}
            expected = float((found.gradients[f"{layer}.{name}"][0] * own).sum())
            assert slope(graph, begin, along) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@settings(max_examples=examples(200), deadline=None)
@given(networks(), st.integers(0, 2**16))
def test_the_gradient_of_any_network_is_that_of_finite_differences(graph: LayerGraph, seed: int) -> None:
    begin = start(graph, seed)
    along = direction(begin, seed)
    slopes = [slope(graph, begin, along, by) for by in (1e-5, 1e-6)]
    # Where these differ a rectifier or the largest element of a pool changes in between.
    assume(slopes[0] == pytest.approx(slopes[1], rel=1e-5, abs=1e-7))
    assert product(step(graph, begin), along) == pytest.approx(slopes[0], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("make", [gpt, llama, mixtral, unet], ids=lambda make: make.__name__)
def test_a_gradient_of_named_dims_is_that_of_finite_differences(make: Callable[[], LayerGraph]) -> None:
    """The first has a weight that two layers use, whose gradient is that of both."""
    graph = make()
    begin = start(graph)
    along = direction(begin, 1)
    for tie in graph.ties:
        del along[tie.user]["weight"]
    assert product(step(graph, begin), along) == pytest.approx(slope(graph, begin, along), rel=1e-6)


def test_a_step_lowers_the_loss_and_is_the_same_every_time() -> None:
    graph = network(softmax=True)
    begin = start(graph, 4)
    first = step(graph, begin)
    found: Parameters = {layer: {} for layer in begin.parameters}
    for update, gradient in zip(first.program.updates, first.gradients.values(), strict=True):
        found[update.layer][update.parameter] = gradient[0]
    after = moved(begin.parameters, found, -LEARNING_RATE)
    assert step(graph, begin._replace(parameters=after)).loss < first.loss
    again = step(graph, start(graph, 4))
    assert again.loss == first.loss
    assert step(graph, start(graph, 5)).loss != first.loss
    assert all((again.gradients[name] == first.gradients[name]).all() for name in first.gradients)


# The loss


@pytest.mark.parametrize("case", ["softmax", "linear", "softmax of an image", "conv"])
def test_errors_are_the_derivatives_of_the_loss(case: str) -> None:
    layer = bench(case).layer
    output = np.random.default_rng(0).uniform(0.1, 1, size=(3, *layer.shape.values()))
    _, error = loss(layer, output)
    direction = np.random.default_rng(1).normal(size=output.shape)
    there, back = (loss(layer, output + sign * 1e-6 * direction)[0].sum() for sign in (1, -1))
    assert (there - back) / 2e-6 == pytest.approx((error * direction).sum(), rel=1e-6)


@pytest.mark.parametrize("case", ["softmax", "linear", "softmax of an image"])
def test_elements_need_nothing_else_and_devices_add_up_alike(case: str) -> None:
    layer, random = bench(case).layer, np.random.default_rng(0)
    output = random.uniform(0.1, 1, size=(3, *layer.shape.values()))
    held = random.random((4, *output.shape)) < 0.5
    for whole, own in zip(loss(layer, output), loss(layer, np.where(held, output, np.nan)), strict=True):
        assert (np.isnan(own) == ~held).all()
        assert (own[held] == np.broadcast_to(whole, own.shape)[held]).all()


def test_a_uniform_distribution_costs_its_entropy() -> None:
    parts, errors = loss(bench("softmax").layer, np.full((3, 5), 0.2))
    assert parts.sum() == pytest.approx(np.log(5))
    assert ((errors != 0).sum(axis=1) == 1).all()


# Transfers bring the right values, once, and count what they bring


ARRAYS = [(2,), (5,), (2, 2), (3, 2), (2, 2, 2), (2, 4)]


@st.composite
def transfers(draw: st.DrawFn) -> tuple[Places, Holding, Holding]:
    places = array_places(draw(st.sampled_from(ARRAYS)))
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    rates = draw(st.tuples(st.floats(0.2, 0.9), st.floats(0.2, 0.9)))
    first, second = (
        Holding(tuple(random.random((places.devices, size)) < rate for size in shape)) for rate in rates
    )
    return places, first, second


@settings(max_examples=examples(200))
@given(transfers())
def test_a_copy_brings_what_some_device_has(case: tuple[Places, Holding, Holding]) -> None:
    places, have, need = case
    whole = np.arange(float(np.prod(have.shape))).reshape(have.shape)
    had, needed = mask(have), mask(need)
    values, moved = copy(places, np.where(had, whole, np.nan), had, needed)
    there = needed & had.any(axis=0)
    assert (np.where(there, values, 0) == np.where(there, whole, 0)).all()
    assert np.isnan(values[~there]).all()
    if not (needed & ~had.any(axis=0)).any():
        assert moved.sum(axis=1).tolist() == counted(places, have, need).tolist()


@settings(max_examples=examples(200))
@given(transfers(), st.data())
def test_a_sum_is_that_of_the_terms_of_a_copy(
    case: tuple[Places, Holding, Holding], data: st.DataObject
) -> None:
    places, terms, need = case
    copies = np.array([data.draw(st.integers(0, 1)) for _ in range(places.devices)])
    had, needed = mask(terms), mask(need)
    source = np.where(had, np.random.default_rng(0).integers(-9, 9, had.shape), np.nan)
    values, moved = add(places, source, had, needed, copies)
    for device, own in enumerate(copies):
        summed = np.where(had & (copies == own).reshape(-1, *[1] * (had.ndim - 1)), source, 0).sum(axis=0)
        there = needed[device] & had[copies == own].any(axis=0)
        assert (values[device][there] == summed[there]).all()
        assert np.isnan(values[device][~there]).all()
    assert moved.sum(axis=1).tolist() == counted(places, terms, need, copies).tolist()
