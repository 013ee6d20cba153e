"""Hypothesis generators of the cuts of a network: on arrays, on trees of unequal device groups, and over stages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import assume
from hypothesis import strategies as st

from hypar.program.lowering import layouts_of
from hypar.sharding.placement import WHOLE, Choice, cut, grid
from hypar.sharding.tree import Device, Level, Node, Split, Stages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanNode
    from hypar.sharding.layout import Layout, Places

ARRAYS = [
    (2,), (3,), (4,), (5,), (6,), (7,), (8,), (12,), (2, 2), (3, 2), (2, 3), (2, 4), (4, 2), (2, 6), (4, 3),
    (2, 2, 2), (2, 2, 3),
]  # fmt: skip
SMALL = [(), (2,), (3,), (4,), (2, 2)]
CUT_DIMS = ("batch", "in_channels", "out_channels", "height", "width", "groups", "channels")
MOST = 12
"""Devices of a tree of groups."""

Taken = dict[str, tuple[Choice, tuple[float, ...]]]
"""The choice of every layer at an uneven split, and the share of each group."""


class Machine(NamedTuple):
    """The devices of a case, the cuts of every layer with choices, and the number of microbatches."""

    places: Places
    cuts: dict[str, Layout]
    microbatches: int = 1


def laid(root: Node, layers: Iterable[str]) -> tuple[Places, dict[str, Layout]]:
    """Return the devices of a tree, and the layout of each layer on them."""
    plan: Any = SimpleNamespace(root=root, layers=tuple(layers))
    return layouts_of(plan)


def _split(choices: Mapping[str, Choice], ways: int, **more: Any) -> Split:
    degrees = {name: dict(choice.degrees) for name, choice in choices.items()}
    shares = [1 / ways] * ways
    return Split(level=0, group="all", ways=ways, shares=shares, choices=degrees, costs={}, cost=0, **more)


def array_of(array: tuple[int, ...], choices: Mapping[str, Sequence[Choice]]) -> Node:
    """Return an array of identical devices, with a choice of each layer at each level."""
    root: Node = Device()
    for at in reversed(range(len(array))):
        root = Level(_split({name: own[at] for name, own in choices.items()}, array[at]), (root,))
    return root


def groups_of(taken: Taken, below: Sequence[Node]) -> Node:
    """Return an uneven split, with what is below it in each group."""
    choices = {name: choice for name, (choice, _) in taken.items()}
    shares = {name: list(own) for name, (_, own) in taken.items()}
    return Level(_split(choices, len(below), sides=[], layer_shares=shares), tuple(below))


@st.composite
def machines(draw: st.DrawFn, graph: LayerGraph) -> Machine:
    """Draw devices and any cuts of a network; pools have cuts of their own in some."""
    layers = graph.nodes(draw(st.sampled_from([None, None, "operators"]))).layers
    names = [layer.name for layer in layers]
    kind = draw(st.sampled_from(["array", "array", "tree", "stages"]))
    if kind == "tree":
        places, cuts = laid(draw(trees(layers)), names)
        assume(places.devices <= MOST)
        return Machine(places, cuts)
    array = draw(st.sampled_from(ARRAYS if kind == "array" else SMALL))
    root = draw(arrays(layers, array))
    if kind == "array":
        return Machine(*laid(root, names))
    count = draw(st.integers(1, 3))
    stage = sorted(draw(st.lists(st.integers(0, count - 1), min_size=len(names), max_size=len(names))))
    own = [
        frozenset(name for name, at in zip(names, stage, strict=True) if at == part) for part in range(count)
    ]
    return Machine(
        *laid(Stages(tuple(own), (None,) * count, (root,) * count), names), draw(st.integers(1, 3))
    )


@st.composite
def arrays(draw: st.DrawFn, layers: Sequence[PlanNode], array: tuple[int, ...]) -> Node:
    """Draw any choices of layers on identical devices."""
    return array_of(
        array,
        {
            layer.name: [draw(choices(dims_of(layer), ways, join=layer.join)) for ways in array]
            for layer in layers
        },
    )


@st.composite
def trees(draw: st.DrawFn, layers: Sequence[PlanNode], depth: int = 2) -> Node:
    """Draw groups of unequal shares, of which some may be nothing, each with groups or identical devices below."""
    if depth == 0 or (depth == 1 and draw(st.booleans())):
        return draw(arrays(layers, draw(st.sampled_from(SMALL))))
    below = [draw(trees(layers, depth - 1)) for _ in range(draw(st.integers(2, 3)))]
    weights = st.lists(st.integers(0, 5), min_size=len(below), max_size=len(below)).filter(any)
    taken = {}
    for layer in layers:
        whole, own = layer.join and not draw(st.integers(0, 3)), draw(weights)
        choice = WHOLE if whole else cut(draw(st.sampled_from(dims_of(layer))), len(below))
        taken[layer.name] = (choice, tuple(weight / sum(own) for weight in own))
    return groups_of(taken, below)


def dims_of(layer: PlanNode) -> tuple[str, ...]:
    return tuple(dim for dim in CUT_DIMS if dim in layer.nest.sizes)


@st.composite
def choices(draw: st.DrawFn, dims: tuple[str, ...], ways: int, *, join: bool) -> Choice:
    """Draw a choice: one dim over all devices, or several dims, which may leave devices idle."""
    if join and not draw(st.integers(0, 3)):
        return WHOLE
    if draw(st.booleans()):
        return grid({draw(st.sampled_from(dims)): ways})
    left, degrees = ways, {}
    for dim in draw(st.permutations(dims)):
        degree = draw(st.sampled_from([number for number in range(1, left + 1) if left % number == 0]))
        if degree > 1:
            degrees[dim] = degree
            left //= degree
    return grid(degrees)
