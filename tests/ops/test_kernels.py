import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hypar.ops.run import uniform
from hypar.ops.tape import Array
from hypar.registry import plugin_names
from tests.effort import examples
from tests.ops.in_torch import EVERY, Ops, native, tensors
from tests.ops.layers import BATCH, CASES, NAMED, Bench, Kernel, backward, bench, forward

STEP = 1e-5


def test_every_op_has_a_case() -> None:
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
    piece = run.kernel.whole()
    reads = run.kernel.reads(piece)
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
    assert set(run.parameters) == set(run.layer.trained)


@pytest.mark.parametrize("case", EVERY)
def test_kernels_do_what_pytorch_does(case: str, torch: Any) -> None:
    ops = Ops(torch)
    run = bench(case)
    piece = run.kernel.whole()
    inputs, held = tensors(run, ops, "float64")
    output = ops(run.layer, inputs, native(run.layer, held))
    output.backward(ops.torch.tensor(run.error))
    np.testing.assert_allclose(
        forward(run, run.inputs, run.parameters, piece), output.detach().numpy(), atol=1e-12
    )
    found = backward(run, piece)
    for ours, theirs in zip(found.inputs, inputs, strict=True):
        if theirs.requires_grad:
            np.testing.assert_allclose(np.nan_to_num(ours), theirs.grad.numpy(), atol=1e-12)
    for name, theirs in held.items():
        np.testing.assert_allclose(found.parameters[name], theirs.grad.numpy(), atol=1e-12)


def test_dropout_keeps_its_share_and_the_mean() -> None:
    run = bench("dropout")
    piece = {"batch": np.arange(400), "channels": np.arange(4), "height": np.arange(4), "width": np.arange(5)}
    many = Kernel(run.layer.op, run.layer.nest(400))
    value = many.forward((np.ones((400, 4, 4, 5)),), {}, piece, {})
    assert set(np.unique(value)) == {0.0, 1 / 0.6}
    assert abs((value > 0).mean() - 0.6) < 0.01
    few = run.kernel.forward((np.ones((BATCH, 4, 4, 5)),), {}, run.kernel.whole(), {})
    assert (few == value[:BATCH]).all(), "the mask depends on the size of the batch"


def test_the_first_of_equal_maxima_gets_the_error() -> None:
    run = bench("max pool, plain")
    flat = Bench(run.layer, (np.ones(run.inputs[0].shape),), {}, run.error)
    back = backward(flat, run.kernel.whole()).inputs[0]
    assert (back[:, :, ::2, 0:4:2] == run.error).all()
    assert not back[:, :, 1::2, :4].any()
    assert not back[:, :, :, 1:4:2].any()


def test_draws_are_spread_evenly_and_unlike() -> None:
    drawn = uniform([100], (np.arange(1000), np.arange(100)))
    assert len(np.unique(drawn)) == drawn.size
    counts, _ = np.histogram(drawn, bins=10, range=(0, 1))
    assert abs(counts / drawn.size - 0.1).max() < 0.005
    assert abs(np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1]) < 0.01
