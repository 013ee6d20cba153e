"""Transfers of a level by paper: halos, and sums before a global pool."""

import numpy as np
import pytest

from hypar import load_model
from hypar.costs.graphs.tables import Tables
from hypar.costs.named import Volume
from hypar.network.nodes import Tensor
from hypar.ops.families.contract import Linear
from hypar.ops.nest import Nest
from hypar.registry import load_plugin
from hypar.sharding.amounts.counted import Received, outermost, received_between, received_inside
from hypar.sharding.amounts.transfers import Between, Sums, parts_of, windowed
from hypar.sharding.placement import WHOLE, Choice, cut, grid, levels_of

BATCH = 6


def moves_by_paper(
    ends: tuple[Nest, Nest], content: Tensor, ways: int, chosen: tuple[Choice, Choice]
) -> tuple[Received, ...]:
    """The transfers of a level that is counted by itself."""
    dims = tuple(dim for dim, _ in content.shape)
    borders = tuple(windowed(ends[1]).items())
    between = Between(ends[0].unsized, ends[1].unsized, dims, content.contracted, apart=True, borders=borders)
    parts = parts_of(between, content.elements)
    return received_between(between, parts, (ways,), ((chosen[0],), (chosen[1],)))


IMAGE = {"channels": 4, "height": 8, "width": 8}
CONV = (
    load_plugin("ops", "conv")
    .model_validate({"out_channels": 4, "kernel": 3, "padding": 1})
    .nest(BATCH, (IMAGE,))
)


def test_by_paper_a_halo_is_a_larger_part_of_what_the_levels_above_leave() -> None:
    """Two rows of eight lie beside a border, and two of the four that a half has."""
    content = Tensor(0, 1, BATCH * 256, frozenset(), tuple(IMAGE.items()))
    borders = tuple(windowed(CONV).items())
    between = Between(CONV.unsized, CONV.unsized, tuple(IMAGE), frozenset(), apart=True, borders=borders)
    parts, halves = parts_of(between, content.elements), (cut("height", 2),) * 2
    moves = received_between(between, parts, (2, 2), (halves, halves))
    assert [(one.phase, one.collective, one.elements / content.elements) for one in moves] == [
        ("forward", "neighbours", 2 / 8),
        ("forward", "neighbours", 2 / 4),
    ]


def test_by_paper_tensors_of_unlike_sizes_have_borders_of_their_own() -> None:
    """Tensors that are computed together cost what they cost one by one, though their halos are unlike parts of them."""
    graph, halves = load_model("vgg16", batch=32).contracted, [cut(dim, 2) for dim in ("batch", "height")]
    options = [(tuple(own for own in halves if own.divided[0] in one.nest.cuttable),) for one in graph.layers]
    tables = Tables(Volume(), graph, levels_of((2,), 4), options, outermost(graph, "paper"))
    every = [np.arange(len(own)) for (own,) in options]
    for one, other in zip(tables.built().edges, tables.built(every).edges, strict=True):
        assert np.array_equal(np.sum(one.terms, axis=0), np.sum(other.terms, axis=0))


def test_by_paper_each_copy_of_a_shard_has_a_border() -> None:
    """Two of four devices have the same rows; what they add up of the error besides is no halo."""
    sums = Sums(True, True, as_read=CONV.elements("output"))
    moves = received_inside(CONV, sums, (4,), (grid({"height": 2, "out_channels": 2}),))
    halo = [one.elements for one in moves if one.collective == "neighbours"]
    assert halo == [2 * CONV.input_elements * 2 / 8]


@pytest.mark.parametrize(
    ("degrees", "times"),
    [({"height": 2}, 2), ({"height": 2, "width": 2}, 6), ({"in_channels": 2, "height": 2}, 4)],
)
def test_what_a_global_pool_sums_over_a_cut_image_is_added_up_by_all_that_hold_it(
    degrees: dict[str, int], times: int
) -> None:
    """Round a ring k devices receive 2(k - 1) times what they add up; two copies of the image do so twice."""
    image, read = {"channels": 8, "height": 4, "width": 4}, Linear(out_features=4)
    made = load_plugin("ops", "conv").model_validate({"out_channels": 8, "kernel": 1})
    ends = (made.nest(BATCH, (image,)), read.nest(BATCH, ({"channels": 8},)))
    shape = (("channels", 8), ("height", 1), ("width", 1))
    content = Tensor(0, 1, BATCH * 8, frozenset({"height", "width"}), shape)
    sums, *_ = moves_by_paper(ends, content, 4, (grid(degrees), WHOLE))
    assert sums.elements == times * content.elements
