from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hypar.execution.boxes import whole_piece
from hypar.registry import plugin_names
from tests.effort import examples
from tests.execution.layers import BATCH, CASES, NAMED, Bench, backward, bench, forward

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.execution.boxes import Array

STEP = 1e-5


def test_every_op_has_a_kernel_and_a_case() -> None:
    assert plugin_names("kernels") == plugin_names("ops")
    assert {op for op, _, _ in (*CASES.values(), *NAMED.values())} == set(plugin_names("ops"))


def require_numeric(found: Array, function: Callable[[Array], float], at: Array) -> None:
    """Check a gradient by central differences of a function; the quick run tries some of the elements."""
    every = [*np.ndindex(at.shape)]
    for index in random.Random(at.size).sample(every, min(examples(len(every), 24), len(every))):
        moved = [at.copy(), at.copy()]
        moved[0][index] += STEP
        moved[1][index] -= STEP
        slope = (function(moved[0]) - function(moved[1])) / (2 * STEP)
        np.testing.assert_allclose(found[index], slope, atol=1e-8)


@pytest.mark.parametrize("case", [*CASES, *NAMED])
def test_gradients_are_those_of_finite_differences(case: str) -> None:
    run = bench(case)
    piece = whole_piece(run.layer, BATCH)
    reads = run.kernel.reads(run.layer, BATCH, piece)
    found = backward(run, piece)
    for number, (at, back, read) in enumerate(zip(run.inputs, found.inputs, reads, strict=True)):

        def of_input(moved: Array, number: int = number) -> float:
            inputs = (*run.inputs[:number], moved, *run.inputs[number + 1 :])
            return float((forward(run, inputs, run.parameters, piece) * run.error).sum())

        assert (np.isnan(back) == ~read).all()
        if case == "embedding":
            assert not back.any(), "tokens have no error"
            continue
        require_numeric(np.where(read, back, 0.0), of_input, at)
    for name, at in run.parameters.items():

        def of_parameter(moved: Array, name: str = name) -> float:
            held = {**run.parameters, name: moved}
            return float((forward(run, run.inputs, held, piece) * run.error).sum())

        require_numeric(found.parameters[name], of_parameter, at)
    assert set(run.parameters) == set(run.layer.op.parameters(run.layer.input_shapes))


@pytest.mark.parametrize("case", ["attention", "causal attention"])
def test_attention_is_that_of_pytorch(case: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    run = bench(case)
    piece = whole_piece(run.layer, BATCH)
    inputs = [torch.tensor(value, requires_grad=True) for value in run.inputs]
    heads_first = [value.transpose(1, 2) for value in inputs]
    attend = torch.nn.functional.scaled_dot_product_attention
    output = attend(*heads_first, is_causal=case != "attention").transpose(1, 2)
    output.backward(torch.tensor(run.error))
    value = forward(run, run.inputs, run.parameters, piece)
    np.testing.assert_allclose(value, output.detach().numpy(), atol=1e-12)
    for ours, theirs in zip(backward(run, piece).inputs, inputs, strict=True):
        np.testing.assert_allclose(ours, theirs.grad.numpy(), atol=1e-12)


def by_torch(  # noqa: C901, PLR0911, PLR0912 (one case an op)
    run: Bench, inputs: list[Any], held: dict[str, Any]
) -> Any:
    """The output of the same layer by PyTorch."""
    torch: Any = pytest.importorskip("torch")
    functional = torch.nn.functional
    op: Any = run.layer.op
    x = inputs[0]
    match run.layer.op_name:
        case "conv" | "conv1d":
            weight = held["weight"].transpose(1, 2).flatten(0, 1)
            return functional.conv2d(
                x, weight, held.get("bias"), op.stride, op.padding, op.dilation, op.groups
            )
        case "conv3d":
            weight = held["weight"].transpose(-5, -4).flatten(0, held["weight"].ndim - 5)
            return functional.conv3d(
                x, weight, held.get("bias"), op.stride, op.padding, op.dilation, op.groups
            )
        case "pool3d":
            kernel = op.kernel or tuple(x.shape[2:])
            pool = functional.max_pool3d if op.mode == "max" else functional.avg_pool3d
            return pool(x, kernel, op.stride or kernel, op.padding)
        case "conv_transpose":
            weight = held["weight"].flatten(0, 1)
            return functional.conv_transpose2d(
                x, weight, held.get("bias"), op.stride, op.padding, op.output_padding, op.groups, op.dilation
            )
        case "linear":
            return functional.linear(x, held["weight"].T, held.get("bias"))
        case "pool":
            pool = functional.max_pool2d if op.mode == "max" else functional.avg_pool2d
            kernel = op.kernel or tuple(x.shape[2:])
            return pool(x, kernel, op.stride, op.padding, ceil_mode=op.rounding == "up")
        case "batch_norm":
            return functional.batch_norm(x, None, None, held.get("weight"), held.get("bias"), training=True)
        case "group_norm":
            return functional.group_norm(x, op.groups, held.get("weight"), held.get("bias"))
        case "softmax":
            return functional.softmax(x, dim=1)
        case "upsample":
            return functional.interpolate(x, scale_factor=op.scale, mode=op.mode)
        case "pointwise" if op.function == "lrn":
            return torch.nn.LocalResponseNorm(5)(x.reshape(*x.shape, *[1] * (4 - x.ndim))).reshape(x.shape)
        case "pointwise" if op.function == "other":
            return x.square() / 2
        case "opaque":
            total = sum(
                (value.flatten(1).sum(1) / value[0].numel() ** 0.5 for value in inputs), torch.zeros(())
            )
            return total.reshape(-1, *[1] * len(run.layer.shape)).expand(-1, *run.layer.shape.values())
        case "pointwise":
            return getattr(functional, op.function, getattr(torch, op.function, None))(x)  # type: ignore[misc]
        case "relu":
            return torch.relu(x)
        case "add":
            return sum(inputs)
        case "concat":
            return torch.cat(inputs, dim=1)
        case "flatten":
            return x.flatten(1)
        case "crop":
            top, left = op.margin
            return x[:, :, top:-top, left:-left]
    return x


@pytest.mark.parametrize("case", [case for case in CASES if case != "dropout"])
def test_kernels_do_what_pytorch_does(case: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    run = bench(case)
    piece = whole_piece(run.layer, BATCH)
    inputs = [torch.tensor(value, requires_grad=True) for value in run.inputs]
    held = {name: torch.tensor(value, requires_grad=True) for name, value in run.parameters.items()}
    output = by_torch(run, inputs, held)
    output.backward(torch.tensor(run.error))
    np.testing.assert_allclose(
        forward(run, run.inputs, run.parameters, piece), output.detach().numpy(), atol=1e-12
    )
    found = backward(run, piece)
    for ours, theirs in zip(found.inputs, inputs, strict=True):
        np.testing.assert_allclose(np.nan_to_num(ours), theirs.grad.numpy(), atol=1e-12)
    for name, theirs in held.items():
        np.testing.assert_allclose(found.parameters[name], theirs.grad.numpy(), atol=1e-12)


def test_dropout_keeps_its_share_and_the_mean() -> None:
    run = bench("dropout")
    piece = {"batch": np.arange(400), "channels": np.arange(4), "height": np.arange(4), "width": np.arange(5)}
    value = run.kernel.forward(run.layer, (np.ones((400, 4, 4, 5)),), {}, piece, {})
    assert set(np.unique(value)) == {0.0, 1 / 0.6}
    assert abs((value > 0).mean() - 0.6) < 0.01
    few = run.kernel.forward(run.layer, (np.ones((BATCH, 4, 4, 5)),), {}, whole_piece(run.layer, BATCH), {})
    assert (few == value[:BATCH]).all(), "the mask depends on the size of the batch"


def test_the_first_of_equal_maxima_gets_the_error() -> None:
    run = bench("max pool, plain")
    flat = Bench(run.layer, (np.ones(run.inputs[0].shape),), {}, run.error)
    back = backward(flat, whole_piece(run.layer, BATCH)).inputs[0]
    assert (back[:, :, ::2, 0:4:2] == run.error).all()
    assert not back[:, :, 1::2, :4].any()
    assert not back[:, :, :, 1:4:2].any()


@pytest.mark.parametrize("case", [case for case in CASES if bench(case).parameters])
def test_activations_stay_near_one(case: str) -> None:
    run = bench(case)
    value = forward(run, run.inputs, run.parameters, whole_piece(run.layer, BATCH))
    assert 0.2 < value.std() < 3
