"""Programs of transformers by random plans: their numbers are those of one device, and what moves is what is counted."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from hypar.execution.verify import verify_program
from hypar.program.lowering import lower
from tests.program.arrays import array_layout, array_places
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

NETWORKS: dict[str, Callable[[], LayerGraph]] = {
    "gpt": gpt,
    "llama": llama,
    "encoder": encoder,
    "gated": gated,
    "mixtral": mixtral,
    "deepseek": deepseek,
    "listener": listener,
    "biased": biased,
    "scaled": scaled,
    "vit": vit,
    "mobilenet": mobilenet,
    "unet": unet,
    "one_matrix": one_matrix,
    "volume": volume,
    "volume of groups": lambda: volume(groups=4),
    "volume of two groups": lambda: volume(groups=2),
}


def check(network: str, array: tuple[int, ...], seed: int, convention: str) -> None:
    """Run a random plan."""
    graph = NETWORKS[network]()
    nodes = graph.contracted
    choices = drawn(nodes, array, random.Random(seed))
    cuts = {layer.name: array_layout(array, own) for layer, own in zip(nodes.layers, choices, strict=True)}
    found = verify_program(lower(graph, array_places(array), cuts, convention))
    assert found.agrees, (found.worst, [str(own) for own in choices])


@pytest.mark.parametrize(
    ("network", "array", "convention"),
    [
        ("gpt", (4,), "fused"),
        ("llama", (3, 2), "moved"),
        ("encoder", (4,), "moved"),
        ("gated", (4,), "fused"),
        ("mixtral", (3, 2), "fused"),
        ("deepseek", (3, 2), "moved"),
        ("listener", (2, 2), "fused"),
        ("biased", (3, 2), "moved"),
        ("scaled", (4,), "fused"),
        ("vit", (4,), "moved"),
        ("volume", (3, 2), "fused"),
        ("volume of groups", (3, 2), "fused"),
    ],
    ids=str,
)
def test_a_random_plan_gives_the_numbers_of_one_device(
    network: str, array: tuple[int, ...], convention: str
) -> None:
    check(network, array, 1, convention)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("array", [(2,), (4,), (2, 2), (3, 2), (2, 4)], ids=str)
@pytest.mark.parametrize("convention", ["moved", "fused", "direct"])
def test_random_plans_give_the_numbers_of_one_device(
    network: str, array: tuple[int, ...], convention: str
) -> None:
    for seed in range(200):
        check(network, array, seed, convention)
