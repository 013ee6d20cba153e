"""The program of one device, which verification holds others against, computes what finite differences of its loss say."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hypar.execution.simulator import LEARNING_RATE, Devices, Parameters, Start, loss, run, start
from hypar.execution.verify import alone
from hypar.network.graph import LayerGraph
from tests.effort import examples
from tests.ops.layers import bench
from tests.program.networks import networks
from tests.transformers import gpt, llama, mixtral, unet


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
    graph = gpt()
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
