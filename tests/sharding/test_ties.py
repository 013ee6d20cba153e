"""A weight that an embedding and a head share: its gradient, its state and its bytes count once, as devices hold and move them."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from hypar import LayerGraph
from hypar.execution.verify import verify_program
from hypar.program.lowering import lower
from hypar.sharding.placement import Options, cut
from tests.amounts import amounts
from tests.kit import agrees
from tests.program.machines import array_of, laid
from tests.transformers import gpt

SEQUENCE, HIDDEN, VOCAB = 12, 24, 48
WEIGHT = HIDDEN * VOCAB
WTE = ("batch", "sequence", "in_vocab", "out_hidden")
HEAD = ("batch", "sequence", "in_hidden", "out_vocab")
SAME = {("in_vocab", "out_vocab"), ("out_hidden", "in_hidden")}
ENDS = ("wte", "head")


def network(*, tied: bool = True) -> LayerGraph:
    return gpt(batch=6, tied=tied, sequence=SEQUENCE, hidden=HIDDEN, vocab=VOCAB)


def chosen(graph: LayerGraph, array: Sequence[int], ends: Sequence[Sequence[str]]) -> list[Options]:
    """Return choices of the embedding and of the head, all other layers divided in the batch, at all levels."""
    own = dict(zip(ENDS, ends, strict=True))
    batch = ("batch",) * len(array)
    return [
        tuple(cut(dim, ways) for dim, ways in zip(own.get(layer.name, batch), array, strict=True))
        for layer in graph.contracted.layers
    ]


def exchanged(
    graph: LayerGraph, array: tuple[int, ...], choices: Sequence[Options], convention: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the elements of the weight's gradient that each level moves, by the count and by a run, which is right."""
    nodes = graph.contracted
    own = {layer.name: chosen for layer, chosen in zip(nodes.layers, choices, strict=True)}
    found = verify_program(lower(graph, *laid(array_of(array, own), own), convention))
    assert agrees(found), found.worst
    counted, moved = np.zeros(len(array)), np.zeros(len(array))
    for one in amounts(nodes, array, choices, convention):
        if one.layer in ENDS and one.phase == "gradient":
            assert one.layer == "wte"
            counted[one.level] += one.elements
    for item in found.transfers:
        if item.item[2:] == ("gradient", "weight") and item.item.layer in ENDS:
            moved += item.moved
    return counted, moved


@pytest.mark.parametrize("ends", [*product(WTE, HEAD)], ids="-".join)
@pytest.mark.parametrize("ways", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_the_gradient_of_one_level(ways: int, ends: tuple[str, str]) -> None:
    graph = network()
    choices = chosen(graph, (ways,), [(end,) for end in ends])
    counted, moved = exchanged(graph, (ways,), choices, "moved")
    assert counted == pytest.approx(moved)
    shares = [1.0 if "vocab" in end or "hidden" in end else float(ways) for end in ends]
    both = 1.0 if ends in SAME else shares[0] * shares[1] / ways
    assert moved.sum() == pytest.approx(2 * WEIGHT * (sum(shares) - both - 1))


# Where one end alone divides a dim further out that both divide further in, pieces lie in two orders: products do not see that.
MIXED = [
    (("batch", "batch"), ("batch", "out_vocab")),
    (("batch", "in_vocab"), ("batch", "out_vocab")),
    (("batch", "out_hidden"), ("batch", "out_vocab")),
    (("batch", "in_vocab"), ("sequence", "batch")),
    (("in_vocab", "out_hidden"), ("out_vocab", "in_hidden")),
    (("in_vocab", "batch"), ("batch", "in_hidden")),
    (("out_hidden", "sequence"), ("in_hidden", "out_vocab")),
]


@pytest.mark.parametrize(
    "ends", [*MIXED[:2], *[pytest.param(ends, marks=pytest.mark.slow) for ends in MIXED[2:]]], ids=str
)
@pytest.mark.parametrize("convention", ["moved", pytest.param("fused", marks=pytest.mark.slow)])
def test_the_gradient_of_two_levels(convention: str, ends: tuple[tuple[str, ...], ...]) -> None:
    graph = network()
    for array in ((2, 2), (3, 2)) if convention == "fused" else ((2, 2),):
        counted, moved = exchanged(graph, array, chosen(graph, array, ends), convention)
        assert counted == pytest.approx(moved)
