"""Networks of named dims, made smaller: what a plan cuts evenly stays even, and rounds of positions stay whole."""

from __future__ import annotations

import pytest
from hypar.studies.verification.shrink_dims import named_dims, with_smaller_dims

from tests.transformers import listener, mixtral


def test_dims_are_halved_down_to_the_least() -> None:
    small = named_dims(with_smaller_dims(mixtral(sequence=64, hidden=128, ff=96), {}))
    assert {dim: small[dim] for dim in ("sequence", "hidden", "ff")} == {"sequence": 4, "hidden": 4, "ff": 6}


def test_positions_along_which_a_convolution_slides_stay() -> None:
    small = named_dims(with_smaller_dims(listener(), {}))
    assert (small["sequence"], small["hidden"]) == (16, 4)


@pytest.mark.parametrize("pieces", [2, 4, 8])
def test_pieces_of_slots_are_whole_rounds_of_positions(pieces: int) -> None:
    """Four experts, two for each position: two positions fill a slot of each."""
    graph = mixtral(sequence=64)
    small = with_smaller_dims(graph, {"h.0.dispatch": {"slots": pieces}})
    dims = named_dims(small)
    assert dims["experts"] == 4
    assert dims["sequence"] == 2 * max(2, pieces)
    dispatch = next(layer for layer in small.layers if layer.name == "h.0.dispatch")
    assert dispatch.shape["slots"] % pieces == 0
