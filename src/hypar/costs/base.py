"""Cost graphs of a network and its choices, for one level or several at once.

A cost prices the choices of one level, given the fraction of every tensor that the levels above have left. This
module turns the prices into nodes and edges. With several levels a choice of a node is a tuple with one entry for
each level, outermost first; the tuples are in lexicographic order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from hypar.costs.alike import counts_elements, of_layers, of_tensors
from hypar.errors import OptionError
from hypar.machine.setting import Setting
from hypar.registry import load_plugin
from hypar.sharding.conventions import DIRECT, PAPER
from hypar.solve.cost_graph import CostGraph, Link, Structure
from hypar.solve.edge import Costs, Edge
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.contraction import Content, ContractedGraph, CutLayer, Tensor
    from hypar.network.ops.base import Einsum
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.sharding.rates import Rates

CONTEXT = ("machine", "optimizer", "profile", "convention")
"""Names of the fields that a cost may have besides its parameters."""


Items = Mapping[str, Costs]
"""Costs that add up, by the name of each."""


class GroupRates(NamedTuple):
    """The cost rates of one device group of an uneven split.

    Attributes:
        inside: cost of each element that it receives inside a layer.
        between: cost of each element that it receives between two layers.
        once: cost of each transfer.
        work: cost of each floating-point operation.
    """

    inside: float
    between: float
    once: float = 0.0
    work: float = 0.0


class Cost(Protocol):
    """The number that a search minimises, level by level: a frozen dataclass whose fields are its parameters."""

    @property
    def unit(self) -> str:
        """The unit of the sum."""

    @property
    def counts_work(self) -> bool:
        """Return whether computation is counted, so that more devices can be dearer or cheaper than fewer."""

    @property
    def slowest(self) -> bool:
        """Return whether an uneven split costs as much as its slowest device group, and not the sum of all."""

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates | None:
        """Return the rates of a device group; None if the cost supports identical devices only."""

    @property
    def direct(self) -> bool:
        """Return whether the terms of E are sent straight to their readers, also in a score of its plans."""

    def layer_costs(self, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes) -> Items:
        """Return the cost of each option inside a layer, in all groups of the level, item by item.

        Returns:
            ``[tuples above, options]`` for each item, by its name, as ``update``; at least one.
        """

    def tensor_costs(
        self,
        level: Level,
        tensor: Tensor,
        ends: tuple[CutLayer, CutLayer],
        options: tuple[Options, Options],
        sizes: LocalSizes,
    ) -> Costs:
        """Return the cost of each pair of options between producer and consumer.

        Args:
            level: the split.
            tensor: the tensor that the consumer reads.
            ends: producer and consumer.
            options: the options of the producer and of the consumer.
            sizes: the fractions of the consumer's tensors that the levels above have left.

        Returns:
            ``[options of producer, tuples above of consumer, options of consumer]``.
        """


class MovingCost(Cost, Protocol):
    """A cost that also counts by ``moved`` and ``fused``, which multiply its rates by their own elements."""

    @property
    def convention(self) -> str:
        """The convention by which transfers are counted: ``layer_costs`` and ``tensor_costs`` are ``paper``'s."""

    def rates(self, level: Level) -> tuple[Rates, Rates]:
        """Return the rates of an element received anywhere at a level: inside layers, and between two."""

    def work(self, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes) -> Items:
        """Return the items of ``layer_costs`` that are no transfers."""


def convention_of(cost: Cost) -> str:
    """Return the convention by which a cost counts transfers."""
    found: str = DIRECT if cost.direct else getattr(cost, "convention", PAPER)
    return found


def load_cost(
    name: str, parameters: Mapping[str, float | str], context: Mapping[str, Any] | None = None
) -> Cost:
    """Load a cost by name and set some of its parameters, the fields of its dataclass.

    Args:
        name: the plug-in's name.
        parameters: numbers that a plan records.
        context: values of fields in ``CONTEXT``; a cost without such a field ignores the value.

    Raises:
        UnknownNameError: there is no such cost.
        OptionError: it has no such parameter, refuses the value, or does not count the measured times that are given.
    """
    cost: Cost = load_plugin("costs", name)
    known = parameters_of(cost)
    for parameter in parameters:
        if parameter not in known:
            raise OptionError(f"cost {name!r}", f"has no parameter {parameter!r}", ", ".join(known) or "none")
    taken = {item.name for item in fields(cost)}  # type: ignore[arg-type]
    if (context or {}).get("profile") is not None and "profile" not in taken:
        raise OptionError("profile", f"cost {name!r} counts no measured times", "a cost that does, as deepa")
    given = {**parameters, **{key: value for key, value in (context or {}).items() if key in taken}}
    return replace(cost, **given) if given else cost  # type: ignore[type-var]


@lru_cache(maxsize=256)
def machine_setting(
    cost: str, machine: Machine | None, level: Level, optimizer: str, *, direct: bool = False
) -> Setting:
    """Return the setting of a step, for a cost that needs a machine.

    Raises:
        OptionError: no machine is named.
    """
    if machine is None:
        raise OptionError(f"cost {cost!r}", "no machine is named", "one, as --hardware hmc")
    return Setting(
        machine=machine,
        array=level.array,
        element_bytes=level.element_bytes,
        optimizer=optimizer,
        direct=direct,
    )


def parameters_of(cost: Cost) -> dict[str, int | float | str]:
    """Return a cost's parameters and their values: its fields except those in ``CONTEXT``."""
    names = [item.name for item in fields(cost) if item.name not in CONTEXT]  # type: ignore[arg-type]
    values = {name: getattr(cost, name) for name in names}
    return {name: value if isinstance(value, str) else exact_number(value) for name, value in values.items()}


def structure(graph: ContractedGraph, options: Sequence[Sequence[Options]]) -> Structure:
    """Return the shape of the cost graph, for the sizes of its tables before they are built."""
    digits = [tuple(len(at_level) for at_level in at_layer) for at_layer in options]
    return Structure(
        sizes=tuple(math.prod(of_layer) for of_layer in digits),
        links=tuple(
            Link(tensor.producer, tensor.consumer, digits[tensor.producer], digits[tensor.consumer])
            for tensor in graph.tensors
        ),
    )


def cost_graph(
    cost: Cost,
    graph: ContractedGraph,
    levels: Sequence[Level],
    options: Sequence[tuple[Options, ...]],
    sizes: Sequence[LocalSizes],
    *,
    relaxed: bool = False,
) -> CostGraph:
    """Build the nodes and edges of the choices of consecutive levels.

    Args:
        cost: the cost of a choice.
        graph: the layers that are cut.
        levels: the levels, outermost first.
        options: for each layer, its options at each of the levels.
        sizes: for each layer its sizes below the levels outside these, for one tuple of choices.
        relaxed: for one level, whether ``sizes`` hold many tuples, the cheapest of which counts for every cost.

    Returns:
        One node a layer, one edge a tensor. Equal layers and equal edges share their arrays.
    """
    nodes: dict[object, tuple[Costs, list[LocalSizes]]] = {}
    edges: dict[object, tuple[Costs, ...]] = {}
    # Options and sizes are long: equal ones get a number, which takes their place in what is looked up.
    numbers: dict[object, int] = {}
    keys = [
        (
            layer.einsum,
            layer.output_elements,
            numbers.setdefault((choices, measured(cost, layer)), len(numbers)),
            before,
        )
        for layer, choices, before in zip(graph.layers, options, sizes, strict=True)
    ]
    together = len(levels) == 1 and not relaxed
    together = together and counts_elements(cost, levels[0], {own[0] for own in options})
    if together:
        rows = _nodes(cost, levels[0], graph, options, keys)
        nodes |= {key: (costs, [key[3]]) for key, costs in rows.items()}
    for key, layer, choices in zip(keys, graph.layers, options, strict=True):
        if key not in nodes:
            nodes[key] = _node(cost, layer, levels, choices, key[3])
            if relaxed:
                least = nodes[key][0].reshape(-1, len(choices[0])).min(axis=0)
                nodes[key] = (least, nodes[key][1])
    made = [numbers.setdefault((key[0], key[2]), len(numbers)) for key in keys]
    read = [numbers.setdefault(key, len(numbers)) for key in keys]
    if together:
        pairs = [(made[one.producer], read[one.consumer], one.content) for one in graph.tensors]
        edges |= _edges(cost, levels[0], graph, options, keys, pairs)
    found = []
    for tensor in graph.tensors:
        ends = (tensor.producer, tensor.consumer)
        pair = (made[ends[0]], read[ends[1]], tensor.content)
        if pair not in edges:
            layers = (graph.layers[ends[0]], graph.layers[ends[1]])
            choices_of_both = (options[ends[0]], options[ends[1]])
            edges[pair] = _terms(cost, tensor, levels, layers, choices_of_both, nodes[keys[ends[1]]][1])
            if relaxed:
                edges[pair] = tuple(term.min(axis=1, keepdims=True) for term in edges[pair])
        found.append(Edge(source=ends[0], target=ends[1], terms=edges[pair]))
    return CostGraph(nodes=tuple(nodes[key][0] for key in keys), edges=tuple(found))


def measured(cost: Cost, layer: CutLayer) -> frozenset[tuple[str, float]]:
    """Return the measured times of a layer, which tell apart layers that are equal otherwise."""
    profile: Profile | None = getattr(cost, "profile", None)
    return frozenset() if profile is None else frozenset(profile.seconds.get(layer.name, {}).items())


Key = tuple["Einsum", int, int, "LocalSizes"]
"""What the costs of a layer depend on: its dims, the elements of F_out, the number of its options, its sizes."""


def _nodes(
    cost: Cost,
    level: Level,
    graph: ContractedGraph,
    options: Sequence[tuple[Options, ...]],
    keys: Sequence[Key],
) -> dict[Key, Costs]:
    """Return the costs of distinct layers at a level, those of equal roles with equal options computed together."""
    alike: dict[tuple[Einsum, int], dict[Key, int]] = {}
    for at, key in enumerate(keys):
        alike.setdefault((key[0].unsized(), key[2]), {}).setdefault(key, at)
    found: dict[Key, Costs] = {}
    for same in alike.values():
        layers = [graph.layers[at] for at in same.values()]
        (own,) = options[next(iter(same.values()))]
        found |= zip(same, of_layers(cost, level, layers, own, [key[3] for key in same]), strict=True)
    return found


def _edges(
    cost: Cost,
    level: Level,
    graph: ContractedGraph,
    options: Sequence[tuple[Options, ...]],
    keys: Sequence[Key],
    pairs: Sequence[tuple[int, int, Content]],
) -> dict[object, tuple[Costs, ...]]:
    """Return the terms of distinct tensors at a level, those between equal dims with equal options computed together."""
    alike: dict[object, dict[object, int]] = {}
    for at, (tensor, pair) in enumerate(zip(graph.tensors, pairs, strict=True)):
        made, read = keys[tensor.producer], keys[tensor.consumer]
        bare = (made[0].unsized(), made[2], read[0].unsized(), read[2], tensor.content.contracted)
        alike.setdefault(bare, {}).setdefault(pair, at)
    found: dict[object, tuple[Costs, ...]] = {}
    for same in alike.values():
        tensors = [graph.tensors[at] for at in same.values()]
        ends = (tensors[0].producer, tensors[0].consumer)
        both = (options[ends[0]][0], options[ends[1]][0])
        left = [keys[tensor.consumer][3] for tensor in tensors]
        costs = of_tensors(cost, level, tensors, (graph.layers[ends[0]], graph.layers[ends[1]]), both, left)
        found |= {pair: (own,) for pair, own in zip(same, costs, strict=True)}
    return found


def _node(
    cost: Cost, layer: CutLayer, levels: Sequence[Level], options: tuple[Options, ...], sizes: LocalSizes
) -> tuple[Costs, list[LocalSizes]]:
    """Return a layer's cost vector over tuples of choices, and its sizes above each level."""
    total, left = None, []
    for level, choices in zip(levels, options, strict=True):
        left.append(sizes)
        added = reduce(np.add, cost.layer_costs(level, layer, choices, sizes).values()).reshape(-1)
        total = added if total is None else (total.repeat(len(choices)) + added)
        sizes = sizes.divided(layer.einsum, choices, level.ways) if level is not levels[-1] else sizes
    return np.zeros(1) if total is None else total, left


def _terms(
    cost: Cost,
    tensor: Tensor,
    levels: Sequence[Level],
    ends: tuple[CutLayer, CutLayer],
    options: tuple[tuple[Options, ...], tuple[Options, ...]],
    left: list[LocalSizes],
) -> tuple[Costs, ...]:
    """Return the term of each level in a tensor's cost matrix over pairs of tuples."""
    return tuple(
        cost.tensor_costs(level, tensor, ends, (here, there), sizes)
        for level, here, there, sizes in zip(levels, *options, left, strict=True)
    )
