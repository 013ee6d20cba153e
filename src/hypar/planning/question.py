"""The search problem of identical devices, built from a request and a network; its answer, and the interface of searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from hypar.activity import INTERRUPTIBLE
from hypar.costs.base import Cost, load_cost
from hypar.costs.graphs.tables import Tables, structure
from hypar.machine.setting import Setting
from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanGraph, PlanNode
from hypar.ops.nest import Nest
from hypar.planning.pins import Pin, apply_pins, parse_pin
from hypar.planning.resolved import Resolved
from hypar.registry import load_plugin
from hypar.sharding.amounts.counted import State, outermost
from hypar.sharding.conventions import DIRECT, PAPER
from hypar.sharding.dims import BATCH
from hypar.sharding.placement import TINY, WHOLE, Choice, Level, Options, levels_of
from hypar.sharding.space import Sizes, Space, fitting, parse_space, runs, shards_left
from hypar.solve.cost_graph import Structure
from hypar.solve.limits import Cut, Limits, OutOfTime, timed
from hypar.solve.solvers.base import Solver, cheapest, load_solver

if TYPE_CHECKING:
    from hypar.costs.graphs.counted import Counted
    from hypar.machine.machine import Machine

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A search problem: ``options`` of each layer of a graph at each of the levels, outermost first, and the cost that is minimised.

    ``pins`` are the choices that are held. ``solver`` is None for the cheapest exact one. ``entered`` is the state below
    uneven splits, by ``moved`` and ``fused``; None if there are none. ``limits`` are those of a joint search; None for
    those of work and memory by default, whatever the clock says. Each layer of a ``numbered`` flat level numbers the
    devices in an order of its own. ``sizes`` are for each layer the dims that its options at all levels together would divide
    into more shards than they have elements; empty if no layer has any.
    """

    graph: PlanGraph
    cost: Cost
    levels: tuple[Level, ...]
    options: tuple[tuple[Options, ...], ...]
    solver: str | None = None
    pins: tuple[Pin, ...] = ()
    entered: State | None = None
    limits: Limits | None = None
    numbered: bool = False
    sizes: tuple[Sizes, ...] = ()

    @property
    def leaves_no_choice(self) -> bool:
        """Whether every layer has a single option at every level, so that there is nothing to search."""
        return all(len(options) == 1 for at_layer in self.options for options in at_layer)

    @property
    def overlaps(self) -> bool:
        """Whether transfers run beside computation, so that a step is shorter than the sum of its seconds."""
        machine: Machine | None = getattr(self.cost, "machine", None)
        return machine is not None and machine.overlap

    @property
    def by_products(self) -> bool:
        """Whether transfers are counted as products over levels."""
        return self.cost.convention != PAPER

    def structure(self, first: int, last: int) -> Structure:
        """Return the structure of the cost graph of the levels from ``first`` up to ``last``, without costs."""
        options = [at_layer[first:last] for at_layer in self.options]
        # Below uneven splits a weight that several layers use is counted for each of them.
        graph = self.graph if self.entered is None else replace(self.graph, ties=())
        return structure(graph, options, self.cost.convention)

    def outermost(self) -> State:
        """Return the state above the outermost level."""
        return self.entered or outermost(self.graph, self.cost.convention)

    def tables(self, first: int, last: int, above: State) -> Tables:
        """Return the tables of the same levels, given the state above them."""
        options, levels = [at_layer[first:last] for at_layer in self.options], self.levels[first:last]
        return Tables(self.cost, self.graph, levels, options, above)

    def over_all(self, known: float) -> Tables:
        """Return the tables of all levels, in which tuples that cannot run cost more than a plan of a ``known`` cost."""
        tables, array = self.tables(0, len(self.levels), self.outermost()), self.levels[0].array
        for node, sizes in enumerate(self.sizes):
            if sizes:
                divides = self.graph.layers[node].nest.multiplies
                barred = ~fitting(self.options[node], array, sizes, divides=divides)
                tables.nodes[node] = tables.nodes[node] + barred * (2 * known or 1.0)
        return tables

    def left(self, node: int, index: int, others: Iterable[Choice]) -> Options:
        """Return the options of a layer at a level that can run beside its choices at other levels."""
        own = self.options[node][index]
        if not (self.sizes and self.sizes[node]):
            return own
        left, array = shards_left(self.sizes[node], others), (self.levels[index].ways,)
        kept = fitting((own,), array, left, divides=self.graph.layers[node].nest.multiplies)
        return tuple(compress(own, kept.tolist()))

    def runs(self, node: int, choices: Options) -> bool:
        """Return whether choices of a layer at all levels can run; those that are none of its options are taken as they are."""
        if not (self.sizes and self.sizes[node]):
            return True
        return runs(self.sizes[node], choices) and all(
            own not in options or own in self.left(node, at, (*choices[:at], *choices[at + 1 :]))
            for at, (own, options) in enumerate(zip(choices, self.options[node], strict=True))
        )

    def at(self, index: int, chosen: Sequence[Sequence[Choice]]) -> Question:
        """Return the problem with the options of a level that can run below the choices of the levels above, beside the pins."""
        if not self.sizes:
            return self
        found = []
        for node, own in enumerate(self.options):
            held = [of[0] for of in own[index + 1 :] if len(of) == 1]
            left = self.left(node, index, (*[above[node] for above in chosen], *held))
            found.append((*own[:index], left, *own[index + 1 :]))
        return replace(self, options=tuple(found))

    def counted(
        self, times: tuple[Sequence[int], Sequence[int]] | None = None, *, rough: bool = False
    ) -> Counted | None:
        """Return the problem of counts of all levels; None if costs may depend on the order of the levels.

        Arguments are as of ``costs.graphs.counted``.
        """
        if not self.by_products:
            return None
        from hypar.costs.graphs.counted import counted  # noqa: PLC0415 (only for products over levels)
        from hypar.costs.graphs.offered import UncountableError  # noqa: PLC0415 (only for products over levels)

        try:
            return counted(self.cost, self.graph, self.levels, self.options, self.sizes, times, rough=rough)
        except UncountableError:
            return None

    def without_spatial(self) -> Question:
        """Return the problem without cuts of height and width, where a cut of the batch never costs more and can always run."""
        devices = math.prod(level.ways for level in self.levels)
        few = any(dim == BATCH and size < devices for sizes in self.sizes for dim, size in sizes)
        if self.by_products or few:
            return self
        from hypar.costs.graphs.offered import without_spatial  # noqa: PLC0415 (only for a joint search)

        return replace(self, options=without_spatial(self.cost, self.graph, self.levels, self.options))

    def pick_solver(self, *structures: Structure) -> tuple[str, Solver]:
        """Return the requested solver, or the cheapest exact one that takes all given graphs, or a bounded one."""
        name = cheapest(structures) if self.solver is None else self.solver
        return name, load_solver(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a search: the choices of each layer at each level, and its costs by level, with the tensors that it reads.

    It is ``exact`` if the ``solver`` found a proven optimum of every cost graph; ``bounds`` are lower bounds of these
    optima, empty if the solver states none; ``limits`` kept the search from a proof, and ``cut`` says how it was cut short,
    if it was. Of a search for the least time of the engine ``step`` has the seconds found, a lower bound, and what takes them, and ``smallest``
    the bytes of the plan that holds least, item by item, if none fits.
    """

    choices: tuple[Options, ...] = ()
    costs: tuple[tuple[float, ...], ...] = ()
    solver: str = ""
    exact: bool = True
    bounds: tuple[float, ...] = ()
    limits: Limits | None = None
    cut: Cut | None = None
    step: tuple[float, float, str] | None = None
    smallest: Mapping[str, float] | None = None

    @property
    def cost(self) -> float:
        """The cost of all levels, added up as a plan does."""
        return math.fsum(map(math.fsum, self.costs))


def latest(
    steps: Iterable[T], limits: Limits | None, said: Callable[[T], None] = lambda _: None
) -> tuple[T | None, Cut | None]:
    """Return the last step of a search that its time allows, each of which is said, and what cut it short.

    That is the clock, or an interrupt where it is allowed.
    """
    last = None
    try:
        with timed(math.inf if limits is None else limits.seconds):
            for step in steps:
                last = step
                said(step)
    except OutOfTime:
        return last, "time"
    except KeyboardInterrupt:
        if not INTERRUPTIBLE.get():
            raise
        return last, "interrupt"
    return last, None


class Search(NamedTuple):
    """A search over the levels.

    ``run`` chooses an option for every layer at every level; it raises ``TableLimitError`` if the solver's tables would not fit.
    ``claim`` says of a result whose cost graphs are all solved exactly what goes before ``over <space>``. A search of all levels
    ``at_once`` is joint, so that devices may be left idle at any of them.
    """

    claim: str
    at_once: bool
    run: Callable[[Question], Answer]


def load_search(name: str) -> Search:
    """Load the search of a name; raises ``UnknownNameError``."""
    search: Search = load_plugin("searches", name)
    return search


def ask(request: Resolved, graph: LayerGraph) -> Question:
    """Build the search problem of a request for identical devices and a network; raises ``InputError`` where they do not suit."""
    contracted = graph.nodes(request.graph)
    if request.profile is not None:
        request.profile.require(graph.name, graph.digest, graph.batch, request.array)
    pins = tuple(parse_pin(text, contracted, len(request.array)) for text in request.pins)
    return replace(
        question_of(request, contracted, pins, request.element_bytes(graph)), limits=request.limits
    )


def question_of(request: Resolved, graph: PlanGraph, pins: Sequence[Pin], element_bytes: int) -> Question:
    """Build the search problem of a request for identical devices and given layers, with choices to hold."""
    space = space_of(request, graph)
    levels = levels_of(request.array, element_bytes)
    cost = cost_of(request)
    # Only grids may leave devices idle, at the innermost level: further out computation is not weighed.
    idle = [space.grids and cost.counts_work and level.innermost for level in levels]
    # Inside a node are the groups on the innermost network of a machine, all devices if it has one.
    tiers = () if request.identical is None else request.identical.tiers
    most = math.inf if len(tiers) < 2 else tiers[-1].devices
    inside = [math.prod(request.array[level.index :]) <= most for level in levels]
    kinds = [*zip((level.ways for level in levels), idle, inside, strict=True)]
    by_kind = {kind: _choices(space, graph, *kind) for kind in set(kinds)}
    free = list(zip(*(by_kind[kind] for kind in kinds), strict=True)) or [()] * len(graph.layers)
    options = apply_pins(pins, graph, free, request.array, space)
    found = Question(
        graph=graph, cost=cost, levels=levels, options=options, solver=request.solver, pins=tuple(pins)
    )
    return found if space.beyond else _that_run(found, space, free)


def _that_run(question: Question, space: Space, free: Sequence[tuple[Options, ...]]) -> Question:
    """Return the problem with the options that can run, and the sizes that all levels together might exceed."""
    array = question.levels[0].array if question.levels else ()
    known: dict[object, tuple[tuple[Options, ...], Sizes]] = {}
    found = []
    for layer, own, unpinned in zip(question.graph.layers, question.options, free, strict=True):
        held = tuple(of is not other for of, other in zip(own, unpinned, strict=True))
        key = (layer.nest, layer.op_name, own, held)
        if key not in known:
            known[key] = _runnable(space, layer, own, held, array)
        found.append(known[key])
    options, sizes = zip(*found, strict=True) if found else ((), ())
    return replace(question, options=options, sizes=sizes if any(sizes) else ())


def _runnable(
    space: Space, layer: PlanNode, options: tuple[Options, ...], held: Sequence[bool], array: Sequence[int]
) -> tuple[tuple[Options, ...], Sizes]:
    """Return the options of a layer that can run, beside those that are held, and the dims that all levels together might divide too far.

    The space has copies for levels at which nothing is left to divide.
    """
    most = {dim: 1 for own in options for choice in own for dim in choice.divided}
    for own in options:
        for dim in most:
            most[dim] *= max(choice.degree(dim) for choice in own)
    sizes = space.sizes(layer, most)
    if all(most[dim] <= size for dim, size in sizes):
        return options, ()
    free = [ways for ways, pinned in zip(array, held, strict=True) if not pinned]
    left = shards_left(sizes, (own[0] for own, pinned in zip(options, held, strict=True) if pinned))
    cuts = sum(int(math.log(size + TINY, max(free))) for _, size in left if size > 1) if free else 0
    if cuts < len(free) and not all(WHOLE in own for own in options):
        options = tuple(
            own if pinned else tuple(dict.fromkeys((*own, *space.in_copies(layer, ways))))
            for own, pinned, ways in zip(options, held, array, strict=True)
        )
    return tuple(
        own if pinned else tuple(compress(own, fitting((own,), (ways,), left, divides=False))) or (WHOLE,)
        for own, pinned, ways in zip(options, held, array, strict=True)
    ), sizes


def _choices(space: Space, graph: PlanGraph, ways: int, idle: bool, inside: bool) -> list[Options]:
    """Return the choices of each layer at a level, which may be inside a node; equal layers share them."""
    known: dict[tuple[Nest, str], Options] = {}
    space = space.inner if inside and space.inner is not None else space
    for layer in graph.layers:
        if (layer.nest, layer.op_name) not in known:
            known[layer.nest, layer.op_name] = space.choices(layer, ways, idle=idle)
    return [known[layer.nest, layer.op_name] for layer in graph.layers]


def cost_of(request: Resolved) -> Cost:
    """Return the cost of a request, on the machine of identical devices if there is one."""
    names = ("optimizer", "profile", "convention", "training")
    given = {name: getattr(request, name) for name in names} | {"machine": request.identical}
    return load_cost(request.cost, request.parameters, given)


def space_of(request: Resolved, graph: PlanGraph) -> Space:
    """Parse the space of a request; raises ``InputError`` if it is none, or names an unknown op."""
    space = parse_space(request.space, graph.named_dims)
    space = replace(space, beyond=request.beyond_elements, microbatches=request.microbatches or 1)
    for op in filter(None, (*space.by_op, *(space.inner.by_op if space.inner else ()))):
        load_plugin("ops", op)
    return space


class _Free:
    """Devices whose links take no time: amounts do not depend on it."""

    groups, tiers, measured, resource = (), (), None, ""

    def using(self, _: object) -> _Free:
        return self

    def links(self, array: Sequence[int]) -> list[_Free]:
        return [self] * len(array)

    def line(self, *_: object) -> object:
        from hypar.machine.links import Line  # noqa: PLC0415 (only where bytes are counted)

        return Line(0.0, 0.0, "")


NO_MACHINE = cast("Machine", _Free())
"""What stands for the machine of a plan for which none is named."""


def setting_for(request: Resolved, element_bytes: int, cost: Cost) -> Setting:
    """Return the setting in which a step of a plan of a cost runs on the identical devices of a request.

    The cost's own count ``direct`` holds, unless another one than ``paper`` is asked for.
    """
    direct = cost.convention == DIRECT and request.counted == PAPER
    return Setting(
        machine=request.identical or NO_MACHINE,
        array=request.array,
        element_bytes=element_bytes,
        optimizer=request.optimizer,
        convention=DIRECT if direct else request.counted,
        training=request.training,
    )
