"""What ops without a weight read and write, and the time that they take on a machine that counts them."""

import math

import pytest

from hypar.machine.load import load_machine
from hypar.network.graph import LayerGraph, load_model
from hypar.planning.planner import plan_model
from tests.kit import known
from tests.transformers import gpt, llama

COUNTED = load_machine("h100-8x", {"unweighted": "counted", "overlap": "none"})
FREE = load_machine("h100-8x", {"unweighted": "free", "overlap": "none"})


@pytest.mark.parametrize(("model", "op", "expected"), [
    ("resnet18", "batch_norm", (3, 5)), ("resnet18", "relu", (2, 3)), ("resnet18", "add", (3, 0)),
    ("resnet18", "softmax", (2, 3)), ("googlenet", "concat", (2, 0)), ("llama2-7b", "multiply", (3, 5)),
    ("llama2-7b", "attention", (0, 0)),
])  # fmt: skip
def test_an_op_passes_over_its_tensors(model: str, op: str, expected: tuple[float, float]) -> None:
    """The passes that Megatron-LM's kernels and PyTorch's were measured to make: elements over those of the output."""
    layer = next(layer for layer in load_model(model).layers if layer.op_name == op)
    made, own = math.prod(layer.shape.values()), layer.nest(1).traffic
    assert (own.forward / made, own.backward / made) == expected


def test_scores_are_moved_unless_attention_is_fused() -> None:
    layer = next(layer for layer in gpt().layers if layer.op_name == "attention")
    scores = math.prod(layer.shape[dim] for dim in ("kv_heads", "sequence", "sequence"))
    own = layer.op.model_copy(update={"flash": False}).nest(1, layer.input_shapes).traffic
    assert (own.forward, own.backward) == (4 * scores, 7 * scores)


def step_bytes(graph: LayerGraph) -> int:
    """Return the bytes of all ops without a weight behind cut layers on one device, from a list of the ops."""
    readers: dict[str, int] = {}
    for layer in graph.layers:
        for name in layer.inputs:
            readers[name] = readers.get(name, 0) + 1
    found = 0.0
    for layer in graph.layers:
        own = layer.nest(1).traffic
        added = readers.get(layer.name, 0)
        made = math.prod(layer.shape.values())
        # The loss reads the network's outputs, and writes their errors.
        errors = (added + 1) * made if added > 1 else 0 if added else 2 * made
        elements = 0 if layer.op_name == "input" else own.forward + own.backward + errors
        found += graph.batch * (graph.element_bytes * elements + 2 * own.mask_bytes)
    return round(found)


def more_time(graph: LayerGraph, phases: tuple[str, ...], *pins: str) -> float:
    """Return the seconds that ops without a weight add to some phases on two devices, elsewhere cut in the batch."""
    space = "batch,sequence" if pins else "batch"
    free, counted = (
        plan_model(graph, array=[2], strategy="dp", pins=pins, space=space, hardware=machine).score
        for machine in (FREE, COUNTED)
    )
    assert counted is not None
    return math.fsum(counted.time[phase] - known(free).time[phase] for phase in phases)


@pytest.mark.parametrize("graph", [llama(), load_model("resnet18")], ids=["llama", "resnet18"])
def test_each_device_takes_the_time_of_its_part_of_all_ops(graph: LayerGraph) -> None:
    """The ops of these networks are all bound by memory, and each of two devices has half of the samples."""
    first = graph.contracted.layers[0].nest
    degrees = tuple(2 if dim == "batch" else 1 for dim in first.counted)
    error = FREE.layer_time(first, degrees, graph.element_bytes).seconds["backward"]
    expected = COUNTED.memory_seconds(step_bytes(graph)) / 2 - error
    assert more_time(graph, ("forward", "backward", "gradient", "update")) == pytest.approx(
        expected, rel=1e-9
    )


def test_an_op_is_divided_as_the_layer_before_it() -> None:
    """The norm behind an addition that is divided in the sequence is on half of the positions on each device."""
    sequence = [f"h.0.{name}=sequence" for name in ("add1", "add2")]
    by_batch = more_time(gpt(), ("forward",))
    assert more_time(gpt(), ("forward",), *sequence) == pytest.approx(by_batch, rel=1e-9)
    whole = more_time(gpt(sequence=9), ("forward",), *sequence) / more_time(gpt(sequence=9), ("forward",))
    assert 1 < whole < 10 / 9
