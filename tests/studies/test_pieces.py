"""The pieces of a plan as problems: they make up the layer, and are those that the machine models time."""

import itertools
import math
import random
from functools import cache

from hypar import load_model, plan_model
from hypar.machine.work import local_shape
from hypar.network.graph import LayerGraph
from hypar.plan.plan import Plan
from hypar.sharding.placement import degrees
from hypar.studies.pieces import problems_of
from tests.effort import crossed, late

MODELS = ("vgg16", "resnet50", "alexnet", "alexnet-2012", "mobilenet-v2", "unet")
ARRAYS = ((2, 2), (3, 2), (2, 5), (4,), (2, 2, 2))


@cache
def randomly_cut(name: str, seed: int) -> tuple[LayerGraph, Plan]:
    rng = random.Random(seed)
    graph = load_model(name).with_batch(rng.choice([7, 12, 16]))
    array = rng.choice(ARRAYS)
    pins = [
        f"{layer.name}@H{level + 1}={rng.choice([dim for dim in layer.nest.sizes if 'kernel' not in dim])}"
        for layer in graph.contracted.layers
        if layer.weighted
        for level in range(len(array))
    ]
    return graph, plan_model(graph, array=array, strategy="hypar", pins=pins)


@crossed({"name": late(MODELS, "resnet50"), "seed": range(2)})
def test_the_pieces_of_all_devices_make_up_every_layer(name: str, seed: int) -> None:
    graph, plan = randomly_cut(name, seed)
    problems = problems_of(plan, model=graph)
    nodes = {layer.name: layer for layer in graph.contracted.layers}
    for layer in (layer for layer in graph.layers if layer.weighted):
        own = [problem for problem in problems if problem.layer == layer.name]
        assert [problem.phase for problem in own[:3]] == ["forward", "backward", "gradient"]
        sums = {
            phase: sum(problem.devices * problem.macs for problem in own if problem.phase == phase)
            for phase in ("forward", "backward", "gradient")
        }
        whole = layer.macs(graph.batch)
        if layer.op_name != "conv_transpose":
            # Two devices may read one input of a transposed window, and multiply it with all taps.
            assert sums == dict.fromkeys(sums, whole)
        assert min(sums.values()) >= whole
        cut = degrees(plan.choices(layer.name))
        fullest = local_shape(nodes[layer.name].nest, cut)
        if layer.op_name != "conv_transpose":
            assert own[0].macs == max(problem.macs for problem in own) <= fullest.padded_macs
        if own[0].pieces == 1 and math.prod(cut) == plan.num_devices and layer.op_name != "conv_transpose":
            assert own[0].macs == fullest.padded_macs


def test_a_transposed_convolution_is_another_phase_of_a_convolution() -> None:
    graph = load_model("unet").with_batch(2)
    plan = plan_model(graph, levels=1, strategy="dp")
    name = next(layer.name for layer in graph.layers if layer.op_name == "conv_transpose")
    kinds = {problem.phase: problem.kind for problem in problems_of(plan, model=graph, layer=name)}
    assert kinds == {"forward": "backward", "backward": "forward", "gradient": "gradient"}
    layer = next(layer for layer in graph.layers if layer.name == name)
    (forward, *_) = problems_of(plan, model=graph, layer=name)
    assert forward.shape.size("in_channels") == layer.shape["channels"]
    assert forward.shape.size("height") == layer.input_shapes[0]["height"]
    assert 2 * forward.macs == layer.macs(graph.batch)


def test_uneven_shares_give_a_problem_for_each_different_piece() -> None:
    graph = load_model("alexnet")
    plan = plan_model(graph, hardware="tpu-v2-v3", levels=2, strategy="accpar")
    problems = [
        problem for problem in problems_of(plan, model=graph, layer="conv2") if problem.phase == "forward"
    ]
    assert len(problems) > 1
    assert [problem.name for problem in problems] == [f"conv2-piece{at + 1}" for at in range(len(problems))]
    assert all(one.macs >= other.macs for one, other in itertools.pairwise(problems))
    assert len({tuple(problem.shape.sizes.items()) for problem in problems}) == len(problems)
    layer = next(layer for layer in graph.layers if layer.name == "conv2")
    assert sum(problem.devices * problem.macs for problem in problems) == layer.macs(graph.batch)


def test_a_plan_in_stages_has_the_pieces_of_a_microbatch() -> None:
    graph = load_model("sfc")
    plan = plan_model(graph, stages=2, levels=1, microbatches=4, hardware="hmc")
    for problem in problems_of(plan, model=graph):
        layer = next(layer for layer in graph.layers if layer.name == problem.layer)
        assert problem.devices == 2
        assert problem.devices * problem.macs == layer.macs(graph.batch // 4)
