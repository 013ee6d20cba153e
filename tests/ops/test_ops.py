"""Every op of the table: its trained numbers and operations by hand, its memory and its products against PyTorch."""

import importlib
from typing import Any

import pytest

from hypar.ops.base import Facts, Shape, Weighted
from hypar.ops.families.elementwise import Multiply
from hypar.ops.windows import ShapeError
from tests.ops.in_torch import EVERY, Ops, native, tensors
from tests.ops.layers import BATCH, COUNTS, bench, layer_of


@pytest.mark.parametrize("case", COUNTS)
def test_an_op_counts_its_parameters_and_operations(case: str) -> None:
    layer = layer_of(case)
    assert (layer.num_parameters, layer.flop()) == COUNTS[case]
    assert layer.flop(batch=3) == 3 * layer.flop() or layer.weighted


def test_a_causal_attention_computes_half_of_its_products_on_every_device() -> None:
    """What a device of two counts, one of half of the heads or of half of the queries."""
    whole, causal = (layer_of(case).nest(BATCH) for case in ("attention", "causal attention"))
    for degrees in ({}, {"heads": 2}, {"sequence": 2}):
        assert causal.macs_among(degrees) == whole.macs_among(degrees) / 2
    assert 2 * causal.macs_among({"heads": 2}) == causal.macs_among({}) == causal.macs


class Gated(Multiply):
    operations = 3


def test_a_join_says_its_operations_as_any_op_does() -> None:
    inputs = ({"channels": 5},) * 3
    assert [op().nest(BATCH, inputs).operations for op in (Multiply, Gated)] == [2 * 15, 2 * 3 * 15]


class Bottleneck(Weighted):
    """``F_out = F_in . W . V`` with two weights, of which a plan would count the gradient of one alone."""

    def _facts(self, shape: Shape) -> Facts:
        loops = {"in_channels": shape["channels"], "inner": 2, "out_channels": 4}
        found = self.contraction({"channels": "in_channels"}, {"channels": "out_channels"}, loops)
        ends = {"weight": ("in_channels", "inner"), "second": ("inner", "out_channels")}
        return found | {"trained": {name: {dim: dim for dim in dims} for name, dims in ends.items()}}


def test_an_op_has_one_weight_beside_a_bias() -> None:
    with pytest.raises(ShapeError, match="trained weight, second; allowed: weight and bias; two weights are"):
        Bottleneck().nest(BATCH, ({"channels": 3},))


OTHERWISE_SAVED = {
    "opaque", "opaque of a vector", "lrn", "lrn of a vector", "rms_norm", "rope", "top_k", "combine",
    "combine of gates by expert", "dispatch", "dispatch of features first", "attention of two parts",
}  # fmt: skip
"""What PyTorch makes of several ops on a CPU, each of which saves something; dispatches with empty slots are of two."""


@pytest.mark.parametrize("case", [case for case in (*EVERY, "dropout") if case not in OTHERWISE_SAVED])
def test_an_op_keeps_what_autograd_saves(case: str, torch: Any) -> None:
    ops = Ops(torch)
    run = bench(case)
    inputs, held = tensors(run, ops, "float32")
    own = {name: value.detach().contiguous() for name, value in native(run.layer, held).items()}
    saved: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        saved[storage._cdata] = storage
        return tensor

    for value in own.values():
        value.requires_grad_()
    flash = torch.nn.attention.SDPBackend.FLASH_ATTENTION
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.nn.attention.sdpa_kernel(flash),
    ):
        output = ops(run.layer, inputs, own)
    for value in own.values():
        saved.pop(value.untyped_storage()._cdata, None)
    keeps = run.layer.nest(BATCH).saved
    read = sum(value.numel() for value in inputs)
    elements = keeps.input * read + keeps.output * output.numel() + keeps.elements + keeps.statistics
    assert sum(storage.nbytes() for storage in saved.values()) == 4 * elements + keeps.mask_bytes


MULTIPLY = [case for case in EVERY if layer_of(case).nest(1).multiplies and "combine" not in case]


@pytest.mark.parametrize("case", MULTIPLY)
def test_products_are_those_that_pytorch_counts(case: str, torch: Any) -> None:
    ops = Ops(torch)
    run = bench(case)
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    inputs, held = tensors(run, ops, "float64")
    math = ops.torch.nn.attention.SDPBackend.MATH
    with counter, ops.torch.nn.attention.sdpa_kernel(math):
        output = ops(run.layer, inputs, native(run.layer, held))
    counted = 2 * run.layer.macs(BATCH) / run.layer.nest(BATCH).fraction if run.layer.macs() else 0
    assert counter.get_total_flops() == counted
    op: Any = run.layer.op
    if run.layer.weighted and getattr(op, "groups", 1) == 1 and not getattr(op, "each", ()):
        with counter:
            output.sum().backward()
        assert counter.get_total_flops() == 2 * counted
