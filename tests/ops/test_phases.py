"""What planners read off a nest about its phases is what the derived backward phase does on pieces."""

from collections.abc import Iterator

import numpy as np
import pytest

from hypar.ops.run import Piece
from hypar.ops.tape import Array
from hypar.sharding.placement import partial_results
from tests.ops.layers import BATCH, CASES, NAMED, Bench, bench, layer_of

PRODUCTS = [case for case in (*CASES, *NAMED) if layer_of(case).nest(BATCH).multiplies]


def halves(run: Bench) -> Iterator[tuple[str, list[Piece]]]:
    """Each dim that a choice may divide, with the pieces of two devices."""
    whole, nest = run.kernel.whole(), run.kernel.nest
    for dim in nest.cuttable:
        if nest.sizes[dim] > 1:
            yield dim, [{**whole, dim: own} for own in np.array_split(whole[dim], 2)]


def results(run: Bench, piece: Piece) -> dict[str, Array]:
    kernel, whole = run.kernel, run.kernel.whole()
    sums = kernel.sums(run.inputs, whole)
    back_sums = kernel.back_sums(run.inputs, run.parameters, run.error, whole, sums)
    found = kernel.backward(run.inputs, run.parameters, run.error, piece, sums, back_sums)
    names = [name for name in kernel.nest.names if name.startswith("input")]
    output = kernel.forward(run.inputs, run.parameters, piece, sums)
    weight = {"weight": found.parameters["weight"]} if kernel.nest.weight else {}
    return {"output": output, **dict(zip(names, found.inputs, strict=False)), **weight}


@pytest.mark.parametrize("case", PRODUCTS)
def test_the_results_that_a_cut_leaves_partial_are_sums_of_the_pieces(case: str) -> None:
    run = bench(case)
    expected = results(run, run.kernel.whole())
    axes = [own for read in run.kernel.nest.inputs for own in read.axes.values()]
    slid = {own.dims[0] for own in axes if own.window is not None}  # windows of two pieces may meet
    checked = 0
    for dim, pieces in halves(run):
        partial = partial_results(run.kernel.nest, dim)
        each = [results(run, piece) for piece in pieces]
        for tensor, whole in expected.items():
            one, two = (own[tensor] for own in each)
            both = ~np.isnan(one) & ~np.isnan(two)
            if tensor in partial:
                assert both.any() or not both.size, (dim, tensor)
                np.testing.assert_allclose((one + two)[both], whole[both], atol=1e-12)
            elif dim not in slid:
                assert not both.any(), (dim, tensor, "is no sum")
            checked += 1
    assert checked
