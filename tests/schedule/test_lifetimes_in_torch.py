"""The activations kept and the peak with errors in flight, against what PyTorch saves and holds for the same network."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from hypar.machine.load import load_machine
from hypar.machine.setting import Setting
from hypar.network.graph import load_model
from hypar.planning.planner import plan_model
from hypar.schedule.lanes import Lane
from hypar.schedule.memory import layers_of, memory_of
from tests.effort import late
from tests.heterogeneous import written
from tests.ops.in_torch import Ops, native, shapes

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer

MODELS = ("lenet-c", "alexnet", "vgg11", "resnet50", "googlenet", "mobilenet-v2", "inception-v3", "unet")
TRANSFORMERS = ("gpt2", "bert-large", "vit-b16", "llama2-7b")
SMALL = ("lenet-c", "alexnet", "resnet18", "unet")
FUNCTIONS = {"gelu": "average", "lrn": "max", "tanh": "max"}
"""Functions, and what their network ends in: means, or maxima and a softmax."""

EVERY_OP = """
  - {op: input, channels: 4, height: 16, width: 16}
  - {name: first, op: conv, out_channels: 8, kernel: 3, padding: 1}
  - {name: normal, op: batch_norm}
  - {name: relu, op: relu}
  - {name: small, op: pool, mode: max, kernel: 2}
  - {name: left, op: conv, inputs: small, out_channels: 8, kernel: 3, padding: 1}
  - {name: pointwise, op: pointwise, inputs: left, function: FUNCTION}
  - {name: sum, op: add, inputs: [pointwise, small]}
  - {name: right, op: conv, inputs: sum, out_channels: 4, kernel: 1}
  - {name: both, op: concat, inputs: [right, sum]}
  - {name: lower, op: pool, mode: average, kernel: 2}
  - {name: wide, op: upsample, mode: bilinear, scale: 2}
  - {name: up, op: conv_transpose, out_channels: 4, kernel: 2, stride: 2}
  - {name: some, op: dropout}
  - {name: one, op: pool, mode: MODE, window: global}
  - {name: flat, op: flatten}
  - {name: last, op: linear, out_features: 5}
LAST"""


class On(NamedTuple):
    """The bytes of activations on a device, the most bytes with errors, and the most of each layer's phases."""

    activations: float
    peak: float
    most: list[tuple[float, float]]


def course(graph: LayerGraph) -> On:
    """On one device."""
    setting = Setting(machine=load_machine("hmc"), array=(), element_bytes=4)
    lane = Lane(graph.contracted, [()] * len(graph.contracted.layers), setting)
    held = memory_of(lane)
    return On(held["activations"], held["activations"] + held["errors"], layers_of(lane))


class InTorch:
    """Networks in PyTorch, without numbers: on the device ``meta`` tensors have sizes and storages alone."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.ops = torch, Ops(torch)
        self.parameters: dict[str, dict[str, Any]] = {}
        self.tied: dict[str, dict[str, Any]] = {}

    def _as_one(self, read: Any, *keeps: Any) -> Any:
        """Return what an op of one input makes that is one op here: PyTorch's own is made of several, each of which keeps something."""
        torch = self.torch

        class One(torch.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, read: Any) -> Any:
                ctx.save_for_backward(*keeps)
                return torch.empty_like(read)

            @staticmethod
            def backward(ctx: Any, error: Any) -> Any:
                return torch.empty_like(error)

        return One.apply(read)

    def _layer(self, layer: Layer, reads: list[Any]) -> Any:
        """Run one layer, with parameters of its own, or with the weight of another."""
        if getattr(layer.op, "function", "") == "lrn":
            return self._as_one(reads[0], reads[0], self.torch.empty_like(reads[0]))
        if layer.op_name == "rope":
            return self._as_one(reads[0])
        if layer.op_name == "rms_norm":
            return self._as_one(reads[0], reads[0], reads[0].new_empty(reads[0].shape[:-1]))
        if layer.op_name == "attention":
            heads_first = [value.movedim(1, -2).flatten(1, -3) for value in reads]
            attend = self.torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
            made, _ = attend(*heads_first, 0.0, layer.op.causal)  # type: ignore[attr-defined]
            return made.unflatten(1, reads[0].shape[2:-1]).movedim(-2, 1)
        named = "channels" not in layer.shape
        if layer.name not in self.parameters:
            own = {name: own.shape for name, own in layer.trained.items()} if named else shapes(layer)
            self.parameters[layer.name] = self.tied.pop(layer.name, {}) | {
                name: self.torch.empty(shape, device="meta", requires_grad=True)
                for name, shape in own.items()
            }
        held = self.parameters[layer.name]
        return self.ops(layer, reads, native(layer, held) if named else held)

    def _trained(self) -> list[Any]:
        """Return all parameters."""
        return [each for held in self.parameters.values() for each in held.values()]

    def loss(self, graph: LayerGraph) -> Any:
        """Run the forward phase; tensors are let go behind their last reader."""
        left = [name for layer in graph.layers for name in layer.inputs]
        tokens = {layer.inputs[0] for layer in graph.layers if layer.op_name == "embedding"}
        made: dict[str, Any] = {}
        for layer in graph.layers:
            reads = [made[name] for name in layer.inputs]
            for name in layer.inputs:
                left.remove(name)
                if name not in left:
                    del made[name]
            shape = graph.batch, *layer.shape.values()
            if reads:
                made[layer.name] = self._layer(layer, reads)
            else:
                kind = self.torch.int32 if layer.name in tokens else None
                made[layer.name] = self.torch.empty(shape, dtype=kind, device="meta")
            for tie in (own for own in graph.ties if own.owner == layer.name):
                weight = self.parameters[layer.name]["weight"]
                self.tied[tie.user] = {"weight": weight.permute(*tie.axes)}
            del reads
        (output,) = made.values()
        return (
            output.sum()
            if graph.layers[-1].op_name in {"softmax", "cross_entropy"}
            else output.square().sum()
        )

    def saved_bytes(self, graph: LayerGraph) -> int:
        """Return the bytes of the distinct storages that autograd saves, without those of parameters."""
        saved: dict[int, Any] = {}

        def pack(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            saved[storage._cdata] = storage
            return tensor

        with self.torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            self.loss(graph)
        for one in self._trained():
            saved.pop(one.untyped_storage()._cdata, None)
        return sum(storage.nbytes() for storage in saved.values())

    def peak_bytes(self, graph: LayerGraph) -> int:
        """Return the most bytes that are alive in a step at once, without parameters and their gradients."""
        torch, alive, peaks = self.torch, dict[int, Any](), [0]
        reductions = importlib.import_module("torch.multiprocessing.reductions")
        dispatch = importlib.import_module("torch.utils._python_dispatch")
        leaves_of = importlib.import_module("torch.utils._pytree").tree_leaves
        gradients = {"convolution_backward": slice(1, 3), "native_batch_norm_backward": slice(1, 3)}

        class Watched(dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
            def __torch_dispatch__(
                self, function: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                found = function(*args, **(kwargs or {}))
                made = leaves_of(found)
                made[gradients.get(function.__name__.split(".")[0], slice(0, 0))] = []
                for tensor in made:
                    if isinstance(tensor, torch.Tensor) and not is_gradient(tensor):
                        storage = tensor.untyped_storage()
                        alive[storage._cdata] = reductions.StorageWeakRef(storage), storage.nbytes()
                for key in [key for key, (storage, _) in alive.items() if storage.expired()]:
                    del alive[key]
                peaks.append(sum(size for _, size in alive.values()))
                return found

        def is_gradient(tensor: Any) -> bool:
            storage = tensor.untyped_storage()._cdata
            return any(
                storage == own.untyped_storage()._cdata or tensor.shape in {own.shape, own.shape[::-1]}
                for own in self._trained()
            )

        self.loss(graph)
        with Watched():
            self.loss(graph).backward()
        return max(peaks)


@pytest.fixture
def in_torch() -> InTorch:
    return InTorch(pytest.importorskip("torch", reason="torch is not installed: pip install torch"))


@pytest.mark.parametrize("model", late((*MODELS, *TRANSFORMERS), "inception-v3", "bert-large"))
def test_a_device_keeps_what_autograd_saves(model: str, in_torch: InTorch) -> None:
    """PyTorch's slice of one position, as ViT classifies by, keeps all of them."""
    graph, saved = load_model(model).with_batch(3), 0
    for layer in graph.layers:
        if layer.op_name == "select":
            saved += 4 * 3 * (math.prod(layer.input_shapes[0].values()) - math.prod(layer.shape.values()))
    assert course(graph).activations + saved == pytest.approx(in_torch.saved_bytes(graph), rel=1e-9)


@pytest.mark.parametrize(
    "model",
    [*SMALL, *(pytest.param(model, marks=pytest.mark.slow) for model in MODELS if model not in SMALL)],
)
def test_the_fullest_moment_is_that_of_a_step(model: str, in_torch: InTorch) -> None:
    """PyTorch's gradients of a linear layer's biases, which the watch takes for activations, are within the tolerance."""
    graph = load_model(model).with_batch(3)
    assert course(graph).peak == pytest.approx(in_torch.peak_bytes(graph), rel=0.006)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_op_keeps_what_autograd_saves(function: str, in_torch: InTorch) -> None:
    mode = FUNCTIONS[function]
    text = EVERY_OP.replace("FUNCTION", function).replace("MODE", mode)
    graph = written(text.replace("LAST", "  - {op: softmax}" if mode == "max" else ""), 3)
    assert course(graph).activations == in_torch.saved_bytes(graph)
    assert course(graph).peak == pytest.approx(in_torch.peak_bytes(graph), rel=0.006)


# By hand


RESIDUAL = """
  - {op: input, channels: 8}
  - {name: before, op: linear, out_features: 8}
  - {name: inner, op: linear, out_features: 32}
  - {name: back, op: linear, out_features: 8}
  - {name: sum, op: add, inputs: [back, before]}
  - {name: last, op: linear, out_features: 8}
"""


def test_a_residual_branch_holds_its_error_until_the_other_has_come_back() -> None:
    """At ``back`` its errors of 8 and 32 numbers are there, the first being the addition's, and at ``inner`` one more of 8."""
    found = course(written(RESIDUAL, 2))
    kept = {"before": 8, "inner": 8, "back": 32, "last": 8, "loss": 8}
    assert found.activations == 4 * 2 * sum(kept.values())
    before, inner, back, _, last = (num_bytes / (4 * 2) for _, num_bytes in found.most)
    assert last == sum(kept.values()) + 8 + 8
    assert back == kept["before"] + kept["inner"] + kept["back"] + 8 + 32
    assert inner == kept["before"] + kept["inner"] + 8 + 32 + 8
    assert before == kept["before"] + 8
    assert found.peak == 4 * 2 * back


@pytest.mark.parametrize(("levels", "least"), [((2,), 1.0), ((3, 5), 0.998)])
def test_samples_of_a_very_large_batch_count_together(levels: tuple[int, ...], least: float) -> None:
    """All of a device's samples are as many times those of a batch that is counted one by one; thirds are rounded."""
    held = {}
    for batch in (1024, 2**20):
        graph = load_model("lenet-c").with_batch(batch)
        plan = plan_model(graph, array=levels, strategy="dp", hardware=load_machine("dojo"))
        assert plan.score is not None
        held[batch] = plan.score.memory["activations"]
    assert (
        least
        <= held[2**20]
        / (1024 * held[1024])
        * (math.ceil(1024 / math.prod(levels)) / 1024 * math.prod(levels))
        <= 1.002
    )
