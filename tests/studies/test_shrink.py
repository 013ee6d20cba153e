"""Smaller networks keep every even cut even, and stay valid."""

import math

import pytest

from hypar import load_model, plan_model
from hypar.studies.shrink import LEAST_CHANNELS, changes_of, even_degrees, named_dims, shrunk
from tests.goldens import NAMES, golden
from tests.studies.nets import layer, network, planned
from tests.transformers import listener, mixtral


@pytest.mark.parametrize("name", NAMES)
def test_even_cuts_stay_even(name: str) -> None:
    plan = golden(name)
    whole = load_model(plan.model.name).with_batch(plan.model.batch)
    parts = plan.stages.microbatches if plan.stages is not None and plan.staged else 1
    small = shrunk(plan, whole, parts, None)
    assert small.macs(small.batch) < whole.macs(whole.batch) / 3
    degrees = even_degrees(plan)
    both = [graph.with_batch(graph.batch // parts).nodes(plan.graph).layers for graph in (whole, small)]
    for before, after in zip(*both, strict=True):
        for dim, degree in degrees[before.name].items():
            assert before.nest.sizes[dim] % degree or not after.nest.sizes[dim] % degree, (before.name, dim)
            assert after.nest.sizes[dim] >= min(degree, before.nest.sizes[dim]) or dim in {"height", "width"}


@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenet-v2", "unet", "googlenet", "inception-v3", "alexnet-2012"]
)
def test_networks_with_joins_groups_and_upsampling_stay_valid(name: str) -> None:
    graph = load_model(name)
    small = shrunk(plan_model(graph, levels=2, strategy="dp"), graph, 1, None)
    assert small.num_parameters < graph.num_parameters / 4
    assert [one.name for one in small.layers] == [one.name for one in graph.layers]
    assert min(one.shape["channels"] for one in small.layers if one.weighted) <= 2 * LEAST_CHANNELS


def test_an_odd_size_stays() -> None:
    graph = network(layer("l", "linear", "in", out_features=27), channels=30, batch=3)
    small = shrunk(planned(graph, (2,), {"l": ("out_channels",)}), graph, 1, None)
    assert [one.shape["channels"] for one in small.layers] == [15, 27]
    assert small.batch == 3


def test_the_samples_that_are_given_stay() -> None:
    graph = network(layer("l", "linear", "in", out_features=16))
    assert shrunk(planned(graph, (2,), {}), graph, 1, 24).batch == 24


def test_changes_are_described() -> None:
    graph = load_model("vgg16")
    small = shrunk(plan_model(graph, levels=2, strategy="dp"), graph, 1, None)
    first, image, *channels = changes_of(graph, small)
    assert (first, image) == ("batch 256 to 4", "input 3x224x224 to 3x56x56")
    times = [int(text.split()[-1]) for text in channels]
    assert all(math.log2(number).is_integer() for number in times)
    assert changes_of(graph, graph) == ()


# Networks of named dims


def test_dims_are_halved_down_to_the_least() -> None:
    graph = mixtral(sequence=64, hidden=128, ff=96)
    small = named_dims(shrunk(plan_model(graph, levels=1, strategy="dp"), graph, 1, None))
    assert {dim: small[dim] for dim in ("sequence", "hidden", "ff")} == {"sequence": 4, "hidden": 4, "ff": 6}


def test_positions_along_which_a_convolution_slides_stay() -> None:
    graph = listener()
    small = named_dims(shrunk(plan_model(graph, levels=1, strategy="dp"), graph, 1, None))
    assert (small["sequence"], small["hidden"]) == (16, 4)


@pytest.mark.parametrize("pieces", [2, 4, 8])
def test_pieces_of_slots_are_whole_rounds_of_positions(pieces: int) -> None:
    """Four experts, two for each position: two positions fill a slot of each."""
    graph = mixtral(sequence=64)
    plan = plan_model(graph, array=[pieces], strategy="dp", space="all", pins="h.0.dispatch=slots")
    small = shrunk(plan, graph, 1, None)
    dims = named_dims(small)
    assert dims["experts"] == 4
    assert dims["sequence"] == 2 * max(2, pieces)
    dispatch = next(layer for layer in small.layers if layer.name == "h.0.dispatch")
    assert dispatch.shape["slots"] % pieces == 0
