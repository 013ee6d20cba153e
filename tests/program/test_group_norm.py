"""Group normalisation on devices that divide its channels across its groups, its image or its samples."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from hypar.execution.verify import verify_program
from hypar.program.cuts import array_cuts
from hypar.program.lowering import lower
from hypar.program.places import array_places
from hypar.sharding.placement import cut
from tests.program.networks import network

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph

DIMS = ("batch", "in_channels", "out_channels", "height")


def normalised(groups: int) -> LayerGraph:
    """Two convolutions with a group normalisation between them."""
    conv = {"op": "conv", "out_channels": 12, "kernel": 3, "padding": 1}
    return network(
        {"op": "input", "channels": 4, "height": 4, "width": 3},
        {"name": "first", **conv},
        {"op": "group_norm", "groups": groups},
        {"op": "relu"},
        {"name": "second", **conv},
        batch=4,
    )


@pytest.mark.parametrize("groups", [3, *[pytest.param(groups, marks=pytest.mark.slow) for groups in (1, 12)]])
def test_devices_have_the_numbers_of_one(groups: int) -> None:
    graph = normalised(groups)
    nodes = graph.contracted.layers
    for array in ((2,),) if groups == 3 else ((2,), (2, 2)):
        for ends in product(DIMS, repeat=2):
            own = (ends, ends[::-1])
            cuts = {
                layer.name: array_cuts(
                    array, [cut(dim, ways) for dim, ways in zip(dims, array, strict=False)]
                )
                for layer, dims in zip(nodes, own, strict=True)
            }
            found = verify_program(lower(graph, array_places(array), cuts))
            assert found.agrees, (array, ends, found.worst)
