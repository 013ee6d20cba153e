"""Programs of any networks by any cuts: their numbers are those of one device, and what moves is what is counted."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar.execution.verify import verify_program
from hypar.program.lowering import lower
from tests.effort import examples
from tests.kit import agrees, unlike
from tests.program.machines import array_of, laid, machines
from tests.program.networks import networks
from tests.transformers import (
    biased,
    deepseek,
    drawn,
    encoder,
    gated,
    gpt,
    listener,
    llama,
    mixtral,
    mobilenet,
    one_matrix,
    scaled,
    unet,
    vit,
    volume,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.network.graph import LayerGraph
    from tests.program.machines import Machine

NETWORKS: dict[str, Callable[[], LayerGraph]] = {
    **{
        make.__name__: make
        for make in (
            gpt,
            llama,
            encoder,
            gated,
            mixtral,
            deepseek,
            listener,
            biased,
            scaled,
            vit,
            mobilenet,
            unet,
        )
    },
    "one_matrix": one_matrix,
    "volume": volume,
    "volume of groups": lambda: volume(groups=4),
    "volume of two groups": lambda: volume(groups=2),
}

QUICK = {
    ("gpt", (4,), "fused"), ("llama", (3, 2), "moved"), ("encoder", (4,), "moved"), ("gated", (4,), "fused"),
    ("mixtral", (3, 2), "fused"), ("deepseek", (3, 2), "moved"), ("listener", (2, 2), "fused"),
    ("biased", (3, 2), "moved"), ("scaled", (4,), "fused"), ("vit", (4,), "moved"), ("volume", (3, 2), "fused"),
    ("volume of groups", (3, 2), "fused"),
}  # fmt: skip
EVERY = product(NETWORKS, [(2,), (4,), (2, 2), (3, 2), (2, 4)], ["moved", "fused", "direct"])


@pytest.mark.parametrize(
    ("network", "array", "convention"),
    [pytest.param(*row, marks=[] if row in QUICK else [pytest.mark.slow], id=str(row)) for row in EVERY],
)
def test_random_plans_give_the_numbers_of_one_device(
    network: str, array: tuple[int, ...], convention: str
) -> None:
    graph = NETWORKS[network]()
    nodes = graph.contracted
    for seed in range(examples(200, 1)):
        choices = drawn(nodes, array, random.Random(seed))
        own = {layer.name: chosen for layer, chosen in zip(nodes.layers, choices, strict=True)}
        found = verify_program(lower(graph, *laid(array_of(array, own), own), convention))
        assert agrees(found), (seed, found.worst, [str(own) for own in choices])


def disagreements(graph: LayerGraph, machine: Machine, convention: str) -> list[object]:
    """Return the tensors that are wrong, and the transfers that moved something else than was counted."""
    program = lower(graph, machine.places, machine.cuts, convention)
    found = verify_program(program, microbatches=machine.microbatches)
    wrong: list[object] = [one for one in found.errors.items() if one[1] > 1e-10]
    wrong += unlike(found)
    return wrong if agrees(found) or wrong else [found.loss, found.expected_loss]


@settings(max_examples=examples(1000, 20))
@given(networks().flatmap(lambda graph: st.tuples(st.just(graph), machines(graph))), st.data())
def test_any_network_under_any_cuts(case: tuple[LayerGraph, Machine], data: st.DataObject) -> None:
    graph, machine = case
    convention = data.draw(st.sampled_from(["moved", "fused", "direct"]))
    assert disagreements(graph, machine, convention) == []
