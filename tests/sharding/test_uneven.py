"""What the groups of an uneven split receive, against tensors that are really divided; and the parts that are left to them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import load_model
from hypar.costs.base import GroupRates
from hypar.ops.nest import PHASES
from hypar.planning.uneven.tree import graph_of_group
from hypar.sharding.amounts.counted import outermost, received_inside
from hypar.sharding.amounts.factors import Offered
from hypar.sharding.placement import WHOLE, Choice, cut, dim_of, whole_shares
from tests.effort import examples
from tests.heterogeneous import written
from tests.oracle import elements_of
from tests.windows import read_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from hypar.network.nodes import PlanGraph, PlanNode, Tensor
    from hypar.sharding.amounts.counted import Received
    from hypar.sharding.amounts.cuts import Shares

    Array = NDArray[np.float64]
    Mask = NDArray[np.bool_]

TYPES = ("batch", "in_channels", "out_channels")
UNITS = 8
"""Shares are of so many units, so that they are exact and every piece is whole."""

Counts = tuple[int, ...]
"""How many units each device has."""


@st.composite
def counts(draw: st.DrawFn, devices: int, least: int = 0) -> Counts:
    """Units that each device has of a layer; some may have none."""
    cuts = sorted(
        draw(st.lists(st.integers(0, UNITS - devices * least), min_size=devices - 1, max_size=devices - 1))
    )
    ends = [0, *cuts, UNITS - devices * least]
    return tuple(end - start + least for start, end in itertools.pairwise(ends))


@st.composite
def pairs(draw: st.DrawFn, devices: int | None = None) -> tuple[Counts, Counts]:
    """Units of two layers, often the same ones."""
    number = draw(st.integers(2, 3)) if devices is None else devices
    first = draw(counts(number))
    return first, draw(st.just(first) | counts(number))


def shares_of(own: Counts) -> tuple[float, ...]:
    return tuple(count / UNITS for count in own)


def spans(size: int, own: Counts) -> list[range]:
    ends = [0, *itertools.accumulate(own)]
    assert size % UNITS == 0
    return [range(start * size // UNITS, end * size // UNITS) for start, end in itertools.pairwise(ends)]


def by_phase(amounts: Iterable[Received], devices: int) -> dict[str, list[Any]]:
    """Elements that each device receives in each phase."""
    found: dict[str, list[Any]] = {phase: [0] * devices for phase in PHASES}
    for amount in amounts:
        found[amount.phase] = [a + b for a, b in zip(found[amount.phase], amount.elements, strict=True)]
    return found


def between(
    graph: PlanGraph, tensor: Tensor, choices: tuple[Choice, ...], shares: tuple[Shares, ...]
) -> list[Received]:
    ends = (Offered((choice,), np.array([own])) for choice, own in zip(choices, shares, strict=True))
    made, read = ends
    return numbers(outermost(graph, "paper", tied=False).between(graph.tensors.index(tensor), made, read))


def inside(graph: PlanGraph, layer: PlanNode, choice: Choice, shares: Shares) -> list[Received]:
    offered = Offered((choice,), np.array([shares]))
    return numbers(outermost(graph, "paper", tied=False).inside(graph, graph.layers.index(layer), offered))


def numbers(amounts: Iterable[Received]) -> list[Received]:
    found = [one._replace(elements=tuple(own.item() for own in one.elements)) for one in amounts]
    return [one for one in found if any(one.elements)]


B, I, H, O = 8, 16, 24, 8
LINEARS = f"""
  - {{op: input, channels: {I}}}
  - {{name: first, op: linear, out_features: {H}}}
  - {{name: second, op: linear, out_features: {O}}}
"""


ALPHAS = (Fraction(1, 2), Fraction(1, 4), Fraction(2, 7), Fraction(3, 10))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_accpar_s_table_of_two_unlike_shares(alpha: Fraction) -> None:
    """AccPar (HPCA 2020), Table 5 and section 4: elements that the device with share alpha receives, and the other."""
    graph = written(LINEARS).contracted

    def cells(a: Fraction) -> list[list[Fraction]]:
        b, size = 1 - a, B * H
        both, some = a * b * 2 * size, b * size
        nothing = Fraction(0)
        return [[nothing, both, some], [some, some, nothing], [both, nothing, some]]

    shares = (alpha, 1 - alpha)
    for device, own in enumerate(shares):
        for (row, made), (column, read) in itertools.product(enumerate(TYPES), repeat=2):
            real = tuple(map(float, shares))
            amounts = between(graph, graph.tensors[0], (cut(made, 2), cut(read, 2)), (real, real))
            found = sum(amount.elements[device] for amount in amounts)
            assert found == pytest.approx(float(cells(own)[row][column]), rel=1e-12, abs=0)
    for kind, elements in zip(TYPES, (I * H, B * H, B * I), strict=True):
        (amount,) = inside(graph, graph.layers[0], cut(kind, 2), tuple(map(float, shares)))
        assert amount.elements == pytest.approx((elements, elements), rel=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("kind", TYPES)
def test_accpar_s_operations_are_divided_by_the_share(alpha: Fraction, kind: str) -> None:
    """AccPar (HPCA 2020): B Do (2 Di - 1) forward, B Di (2 Do - 1) backward, Di Do (2 B - 1) for the gradient."""
    first, _ = written(LINEARS).contracted.layers
    flop = B * H * (2 * I - 1) + B * I * (2 * H - 1) + I * H * (2 * B - 1)
    rates, shares = GroupRates(inside=0.0, between=0.0, work=1.0), (float(alpha), 1 - float(alpha))
    found = [rates.computing(first, cut(kind, 2), share) for share in shares]
    assert found == pytest.approx([float(alpha * flop), float((1 - alpha) * flop)], rel=1e-12)


# Other layers: masks of what is held and needed, from the dims that each device computes.

NETWORKS = {
    "linear linear": LINEARS,
    "conv conv": """
  - {op: input, channels: 8, height: 8, width: 3}
  - {name: a, op: conv, out_channels: 16, kernel: 3, padding: 1}
  - {name: b, op: conv, out_channels: 8, kernel: 3, padding: 1}
""",
    "transposed over borders": """
  - {op: input, channels: 8, height: 16, width: 3}
  - {name: a, op: conv, out_channels: 8, kernel: 3, padding: 1}
  - {name: b, op: conv_transpose, out_channels: 8, kernel: 4, stride: 2, padding: 1}
""",
    "enlarged": """
  - {op: input, channels: 8, height: 8, width: 3}
  - {name: a, op: conv, out_channels: 8, kernel: 3, padding: 1}
  - {op: upsample, mode: bilinear, scale: [2, 1]}
  - {name: b, op: conv, out_channels: 8, kernel: 3, padding: 1}
""",
    "groups": """
  - {op: input, channels: 8, height: 8, width: 1}
  - {name: a, op: conv, out_channels: 32, kernel: 1}
  - {name: b, op: conv, out_channels: 16, kernel: 1, groups: 8}
  - {name: c, op: conv, out_channels: 8, kernel: 1}
""",
    "pool and flatten": """
  - {op: input, channels: 8, height: 16, width: 6}
  - {name: a, op: conv, out_channels: 16, kernel: 3, padding: 1}
  - {op: pool, mode: max, kernel: 2, stride: 2}
  - {op: flatten}
  - {name: b, op: linear, out_features: 8}
""",
    "concat": """
  - {op: input, channels: 8, height: 8, width: 2}
  - {name: a, op: conv, out_channels: 16, kernel: 1}
  - {name: b, op: conv, out_channels: 8, kernel: 3, padding: 1}
  - {name: both, op: concat, inputs: [a, b]}
  - {name: c, op: conv, out_channels: 8, kernel: 1}
""",
}  # fmt: skip


def options_of(layer: PlanNode, devices: int) -> list[Choice]:
    dims = [dim for dim in (*TYPES, "channels", "groups", "height") if layer.nest.sizes.get(dim, 1) > 1]
    # A cut inside every group of channels is not one of consecutive channels.
    dims = [dim for dim in dims if "groups" not in layer.nest.sizes or "channels" not in dim]
    return [cut(dim, devices) for dim in dims] + ([WHOLE] if layer.join else [])


def boxes(
    layer: PlanNode, choice: Choice, own: Counts, end: str, sizes: dict[str, int], *, windows: bool
) -> list[Mask]:
    """Masks of what each device holds of a layer's output, or of its input; with ``windows`` of what it reads there.

    Each device does its piece of the dim that is cut, and has of a tensor what belongs to its piece.
    """
    nest, dim = layer.nest, dim_of(choice)
    names = nest.names["output"] if end == "output" else nest.names["input"]
    found = []
    for device, count in enumerate(own):
        taken = []
        for name, size in sizes.items():
            elements = set(range(size))
            if dim is not None and names.get(dim) == name:
                elements = set(spans(size, own)[device])
                window = nest.windows.get(dim) if windows else None
                if window is not None:
                    places = spans(nest.sizes[dim], own)[device]
                    elements |= {element for place in places for element in read_by(window, place, size)}
            taken.append(sorted(elements))
        mask = np.zeros(list(sizes.values()), dtype=bool)
        if count:
            mask[np.ix_(*taken)] = True
        found.append(mask)
    return found


def missing(needed: Sequence[Mask], held: Sequence[Mask]) -> list[int]:
    return [int((need & ~have).sum()) for need, have in zip(needed, held, strict=True)]


@pytest.mark.parametrize("network", NETWORKS)
@given(data=st.data(), own=pairs())
@settings(max_examples=examples(80), deadline=None)
def test_between_layers_a_device_receives_what_it_needs_less_what_it_holds(
    network: str, data: st.DataObject, own: tuple[Counts, Counts]
) -> None:
    graph, devices = written(NETWORKS[network]).contracted, len(own[0])
    tensor = data.draw(st.sampled_from(graph.tensors))
    made, read = graph.layers[tensor.producer], graph.layers[tensor.consumer]
    choices = tuple(data.draw(st.sampled_from(options_of(end, devices))) for end in (made, read))
    sizes = {"batch": UNITS, **dict(tensor.shape)}
    holds = boxes(made, choices[0], own[0], "output", sizes, windows=False)
    needs = boxes(read, choices[1], own[1], "input", sizes, windows=True)
    returns = boxes(read, choices[1], own[1], "input", sizes, windows=False)
    shares = (shares_of(own[0]), shares_of(own[1]))
    if own[0] == own[1] and data.draw(st.booleans()):
        shares = (shares[0], shares[0])
    counted = by_phase(between(graph, tensor, choices, shares), devices)
    assert counted["forward"] == pytest.approx(missing(needs, holds), rel=1e-12, abs=0)
    assert counted["backward"] == pytest.approx(missing(holds, returns), rel=1e-12, abs=0)


@given(own=counts(2) | counts(3))
@settings(max_examples=examples(60), deadline=None)
def test_a_cut_image_s_error_is_added_up_where_windows_reach_over_a_border(own: Counts) -> None:
    """Each device gets the others' terms of its own rows."""
    graph, devices = written(NETWORKS["conv conv"]).contracted, len(own)
    layer = graph.layers[1]
    sizes = {"batch": UNITS, "channels": 16, "height": 8, "width": 3}
    choice = cut("height", devices)
    mine = boxes(layer, choice, own, "input", sizes, windows=False)
    terms = boxes(layer, choice, own, "input", sizes, windows=True)
    received = [
        sum(int((hold & term).sum()) for other, term in enumerate(terms) if other != device)
        for device, hold in enumerate(mine)
    ]
    assert by_phase(inside(graph, layer, choice, shares_of(own)), devices)["backward"] == received


@pytest.mark.parametrize("dim", ["height", "width"])
@given(own=counts(2) | counts(3))
@settings(max_examples=examples(40), deadline=None)
def test_what_a_global_pool_sums_over_a_cut_image_is_added_up_by_those_that_have_terms(
    dim: str, own: Counts
) -> None:
    graph = written("""
  - {op: input, channels: 8, height: 8, width: 8}
  - {name: a, op: conv, out_channels: 8, kernel: 1}
  - {op: pool, mode: average, window: global}
  - {op: flatten}
  - {name: b, op: linear, out_features: 8}
""").contracted
    (tensor,), devices = graph.tensors, len(own)
    shares = shares_of(own)
    choices = (cut(dim, devices), cut("in_channels", devices))
    counted = by_phase(between(graph, tensor, choices, (shares, shares)), devices)
    elements = UNITS * 8
    others = sum(count > 0 for count in own) - 1
    # Every device with a term gets the others' terms of its own piece, and the other pieces' sums.
    received = [elements * (others * share + 1 - share) if share else 0 for share in shares]
    # Then every device that works has all sums; of E each needs the channels that it does not hold itself.
    assert counted["forward"] == received
    assert counted["backward"] == [elements - elements * share if share else 0 for share in shares]


@pytest.mark.parametrize("name", ["gpt2", "unet", "llama3-8b"])
@pytest.mark.parametrize("convention", ["paper", "moved"])
def test_equal_shares_add_up_what_an_even_level_does(name: str, convention: str) -> None:
    """Sums of weights and of products of activations alike, but for rows beside borders."""
    graph = load_model(name, batch=UNITS).contracted
    state, seen = outermost(graph, convention, tied=False), set()
    for at, (layer, sums) in enumerate(zip(graph.layers, state.network.sums, strict=True)):
        for dim in layer.nest.cuttable if (layer.nest, sums) not in seen else ():
            seen.add((layer.nest, sums))
            if dim in layer.nest.windows:
                continue
            choice = cut(dim, 2)
            own = state.inside(graph, at, Offered((choice,), np.array([[0.5, 0.5]])))
            even = received_inside(layer.nest, sums, (2,), (choice,))
            found = sorted(
                (one.phase, float(sum(map(np.sum, one.elements)))) for one in own if np.any(one.elements)
            )
            expected = sorted((one.phase, one.elements) for one in even)
            assert [phase for phase, _ in found] == [phase for phase, _ in expected]
            assert [own for _, own in found] == pytest.approx([own for _, own in expected], rel=1e-12)
    assert seen


@pytest.mark.parametrize("integral", [False, True])
@pytest.mark.parametrize("network", NETWORKS)
@given(data=st.data(), own=pairs())
@settings(max_examples=examples(40), deadline=None)
def test_the_parts_of_a_network_sum_to_the_whole(
    network: str, integral: bool, data: st.DataObject, own: tuple[Counts, Counts]
) -> None:
    """Sizes, elements and products of each layer, of which all parts have what is not divided; layers may have other shares."""
    graph, devices = written(NETWORKS[network]).contracted, len(own[0])
    choices = [data.draw(st.sampled_from(options_of(layer, devices))) for layer in graph.layers]
    shares = [shares_of(data.draw(st.sampled_from(own))) for _ in graph.layers]
    each = [
        graph_of_group(graph, choices, [of[group] for of in shares], integral=integral)
        for group in range(devices)
    ]
    for index, (layer, choice) in enumerate(zip(graph.layers, choices, strict=True)):
        dim, parts = dim_of(choice), [part.layers[index] for part in each]
        facts: list[tuple[bool, float, list[float]]] = [
            (name == dim, size, [part.nest.sizes[name] for part in parts])
            for name, size in layer.nest.sizes.items()
        ]
        for tensor in ("input", "weight", "output"):
            carried = dim is not None and dim in layer.nest.names[tensor]
            facts.append((carried, elements_of(layer, tensor), [elements_of(part, tensor) for part in parts]))
        facts.append((dim is not None, layer.nest.macs, [part.nest.macs for part in parts]))
        for is_divided, whole, found in facts:
            assert sum(found) == pytest.approx(whole) if is_divided else found == [whole] * devices
    for index, edge in enumerate(graph.tensors):
        elements = [part.tensors[index].elements for part in each]
        if dim_of(choices[edge.consumer]) in graph.layers[edge.consumer].nest.names["input"]:
            assert sum(elements) == pytest.approx(edge.elements)
        else:
            assert elements == [edge.elements] * devices


@given(size=st.integers(1, 3000), weights=st.lists(st.integers(0, 1000), min_size=2, max_size=8).filter(any))
@settings(max_examples=examples(200))
def test_whole_shares_are_of_whole_elements_and_sum_to_all(size: int, weights: list[int]) -> None:
    shares = [weight / sum(weights) for weight in weights]
    found = whole_shares(size, shares)
    if size < len(shares):
        assert found == tuple(shares)
        return
    counted = [round(share * size) for share in found]
    assert [count / size for count in counted] == list(found)
    assert sum(counted) == size
    assert min(counted) >= 1
    assert sum(Fraction(count, size) for count in counted) == 1
    # Nobody is further than an element from his due, but where others had to be given their one.
    if all(share * size >= 1 for share in shares):
        assert all(abs(count - share * size) < 1 for count, share in zip(counted, shares, strict=True))
