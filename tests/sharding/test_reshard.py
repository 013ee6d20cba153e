"""Transfers between grids against tensors that are really divided, element by element over all devices."""

import itertools
import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_model
from hypar.costs.graphs.tables import Tables
from hypar.costs.named import Volume
from hypar.network.nodes import Tensor
from hypar.ops.families.contract import Linear
from hypar.ops.families.elementwise import Add
from hypar.ops.nest import Nest
from hypar.registry import load_plugin
from hypar.sharding.amounts.counted import Received, outermost, received_between, received_inside
from hypar.sharding.amounts.transfers import Between, Sums, parts_of, windowed
from hypar.sharding.placement import WHOLE, Choice, cut, grid, levels_of, primes
from tests.effort import examples

ORDER = ("batch", "height", "width", "in_channels", "out_channels", "channels")
BATCH = 6


def digits(choice: Choice, ways: int) -> list[tuple[int, str]]:
    """The digits of a device's number, outermost first: the values of each, and the dim that it divides."""
    found = [(prime, "copies" if not choice.degrees else "idle") for prime in primes(ways)]
    for dim in ORDER:
        for prime in primes(choice.degree(dim)):
            found[found.index((prime, "idle"))] = prime, dim
    return found


def choices(nest: Nest, ways: int) -> list[Choice]:
    """Every grid of a layer on some devices, degrees above the size of a dim left out."""
    dims = [dim for dim in ORDER if dim in nest.sizes]
    degrees = [degree for degree in range(1, ways + 1) if ways % degree == 0]
    every = itertools.product(*([d for d in degrees if d <= nest.sizes[dim]] for dim in dims))
    found = [grid(dict(zip(dims, own, strict=True))) for own in every if ways % math.prod(own) == 0]
    return found if nest.weight else [*found, WHOLE]


def moves_by_paper(
    ends: tuple[Nest, Nest], content: Tensor, ways: int, chosen: tuple[Choice, Choice]
) -> tuple[Received, ...]:
    """The transfers of a level that is counted by itself."""
    dims = tuple(dim for dim, _ in content.shape)
    borders = tuple(windowed(ends[1]).items())
    between = Between(ends[0].unsized, ends[1].unsized, dims, content.contracted, apart=True, borders=borders)
    parts = parts_of(between, content.elements)
    return received_between(between, parts, (ways,), ((chosen[0],), (chosen[1],)))


def by_paper(
    ends: tuple[Nest, Nest], content: Tensor, ways: int, chosen: tuple[Choice, Choice]
) -> tuple[float, float]:
    moves = moves_by_paper(ends, content, ways, chosen)
    forward, backward = (
        math.fsum(one.elements for one in moves if one.phase == own) for own in ("forward", "backward")
    )
    return forward, backward


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


GROSS = 144
"""Samples and channels, which every degree below divides."""
SQUARE = Linear(out_features=GROSS).nest(GROSS, ({"channels": GROSS},))
JOIN = Add().nest(GROSS, ({"channels": GROSS},) * 2)


def parts(carried: Mapping[str, str], choice: Choice, ways: int) -> dict[int, tuple[np.ndarray, ...]]:
    """The samples and channels of a tensor that each device has: those whose digits are its own, where it divides them."""
    names, own = {tensor: op for op, tensor in carried.items()}, digits(choice, ways)
    counts = [degree for degree, _ in own]
    numbers = np.unravel_index(np.arange(GROSS), (*counts, GROSS // ways))
    found = {}
    for device, values in enumerate(itertools.product(*map(range, counts))):
        if any(value for value, (_, dim) in zip(values, own, strict=True) if dim == "idle"):
            continue
        found[device] = tuple(
            np.all(
                [
                    (number == value) | (op != names[dim])
                    for value, (_, op), number in zip(values, own, numbers[:-1], strict=True)
                ],
                axis=0,
            )
            for dim in ("batch", "channels")
        )
    return found


def missing(need: Mapping[int, tuple[np.ndarray, ...]], have: Mapping[int, tuple[np.ndarray, ...]]) -> int:
    nothing = (np.zeros(GROSS, bool),) * 2
    return sum(
        math.prod(int(mask.sum()) for mask in box)
        - math.prod(int((a & b).sum()) for a, b in zip(box, have.get(device, nothing), strict=True))
        for device, box in need.items()
    )


@given(data=st.data(), ways=st.sampled_from([4, 6, 9, 12, 16]))
@settings(max_examples=examples(150), deadline=None)
def test_at_once_a_device_receives_what_it_needs_less_what_it_holds(data: st.DataObject, ways: int) -> None:
    """Partial sums are added up inside layers, so E moves once as F does; what does not move is exactly nothing."""
    ends = (data.draw(st.sampled_from([SQUARE, JOIN])), data.draw(st.sampled_from([SQUARE, JOIN])))
    made, read = (data.draw(st.sampled_from(choices(end, ways))) for end in ends)
    content = Tensor(0, 1, GROSS**2, frozenset(), (("channels", GROSS),))
    found = by_paper(ends, content, ways, (made, read))
    has, gets = parts(ends[0].names["output"], made, ways), parts(ends[1].names["input"], read, ways)
    assert found == pytest.approx((missing(gets, has), missing(has, gets)), rel=1e-9, abs=0)


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
