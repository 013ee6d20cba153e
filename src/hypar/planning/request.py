"""The request behind a plan, and the checks of its fields."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, cast

from hypar.costs.base import load_cost
from hypar.errors import HardwareError, OptionError, UnknownNameError, shown
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.network.training import OPTIMIZERS
from hypar.plan.chunks import CHUNKS, Asked, Manner
from hypar.plan.plan import MOST_DEVICES, Operators, Plan
from hypar.plan.splits import BALANCES, INTERLEAVED, RULES, WHOLE_ARRAY
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.schedule.pipeline_orders import checked_schedule
from hypar.sharding.conventions import PAPER
from hypar.sharding.space import parse_space
from hypar.solve.limits import DEFAULT_BYTES, DEFAULT_S, UNLIMITED, Cut, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.chunks import Asked


SHARES = (*RULES, "layers")
"""The rules for the shares of device groups; ``layers`` gives each layer its own."""

FIXED = ("dp", "owt")
"""Strategies that decide without a search: what practitioners do by default."""

BASELINES = (*FIXED, "hypar", "accpar")
"""The strategies that compete with a search for least time."""

BEST = "best"
"""In place of a number of stages: as many as are fastest."""

GRAPHS = ("contracted", "operators")
"""The graphs of a network that can be planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """All inputs of a plan except the network; a plan records them.

    Attributes:
        strategy: name of the strategy.
        space: the allowed choices, as text.
        cost: name of the cost.
        parameters: parameters of the cost to set; others keep their defaults.
        search: name of the search.
        graph: ``operators`` to plan pools too; None for weighted layers and joins only.
        solver: name of the solver; None for the cheapest exact one.
        arrays: ways of each level, outermost first, inside each group of identical devices by its name: ``all`` where
            there is one group.
        pins: choices to hold, as text.
        machine: the machine, a tree of device groups or a group of identical devices; None if no hardware is named.
        optimizer: the optimizer whose updates a score counts.
        profile: measured times for a cost that takes them.
        refine: whether to refine the plan against the engine.
        shares: the rule for the shares of its device groups.
        integral: whether shares are rounded to whole elements.
        stages: the number of pipeline stages, each cut separately, or ``best``; None for no pipeline.
        schedule: the order of work in the pipeline.
        parts: the number of parts of each stage; None for one.
        microbatches: microbatches in a mini-batch; None for as many as stages, or the next fewer that divide it.
        balance: the quantity of the costliest stage that the partition minimises.
        starts: names of the stages' first layers; empty to search the best partition.
        outside: number of levels and uneven splits outside the stages.
        chunks: the chunks in which gradients are exchanged; None for single layers.
        baselines: strategies that the engine times beside the search's plan; the fastest is taken.
        beyond_space: whether they may have choices outside the space, as no space was requested.
        convention: the convention by which the cost counts bytes.
        counted: the convention by which the engine and the score count them.
        limits: the limits of a joint search.
        limited: whether they kept the search of a stored plan from a proof.
        cut: where the search of a stored plan was cut short; None for one that is to go on.
    """

    strategy: str
    space: str
    cost: str
    parameters: Mapping[str, float | str]
    search: str
    solver: str | None
    arrays: Mapping[str, tuple[int, ...]]
    pins: tuple[str, ...]
    graph: Operators | None = None
    machine: Machine | HeterogeneousMachine | None = None
    optimizer: str = "sgd"
    profile: Profile | None = None
    refine: bool = False
    shares: str = "equal"
    integral: bool = False
    stages: int | str | None = None
    schedule: str = "1f1b"
    parts: int | None = None
    microbatches: int | None = None
    balance: str = "time"
    starts: tuple[str, ...] = ()
    outside: int = 0
    chunks: Asked | None = None
    baselines: tuple[str, ...] = ()
    beyond_space: bool = False
    convention: str = PAPER
    counted: str = PAPER
    limits: Limits = UNLIMITED
    limited: bool = False
    cut: Cut | None = None

    @property
    def heterogeneous(self) -> HeterogeneousMachine | None:
        """The machine if it has several groups; None on identical devices."""
        return self.machine if isinstance(self.machine, HeterogeneousMachine) else None

    @property
    def identical(self) -> Machine | None:
        """The machine if all its devices are identical; None on several groups, and if no hardware is named."""
        return None if isinstance(self.machine, HeterogeneousMachine) else self.machine

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines of all groups of identical devices; empty if no hardware is named."""
        if isinstance(self.machine, HeterogeneousMachine):
            return tuple(machine for _, machine, _ in self.machine.identical())
        return () if self.machine is None else (self.machine,)

    @property
    def array(self) -> tuple[int, ...]:
        """The ways of each level of identical devices; empty on several groups."""
        return self.arrays.get(WHOLE_ARRAY, ())

    @property
    def levels(self) -> int:
        """The largest number of uneven splits and levels above a device."""
        if isinstance(self.machine, HeterogeneousMachine):
            return max(depth + len(self.arrays[name]) for name, _, depth in self.machine.identical())
        return len(self.array)

    def over(self, array: Sequence[int]) -> Request:
        """Return the request with the ways of each level of identical devices replaced."""
        return replace(self, arrays={WHOLE_ARRAY: tuple(array)})

    def as_planned(self, plan: Plan) -> Request:
        """Return the request with the levels that a plan has, inside its stages if it has any."""
        if plan.arrays is None:
            return self.over(plan.array)
        return replace(self, arrays={name: tuple(array) for name, array in plan.arrays.items()})

    def on(self, machine: Machine | HeterogeneousMachine, name: str = WHOLE_ARRAY) -> Request:
        """Return the request for a node of the machine alone.

        Args:
            machine: the devices of the node.
            name: the name of their group.
        """
        if isinstance(machine, HeterogeneousMachine):
            arrays = {own: self.arrays[own] for own, _, _ in machine.identical()}
            return replace(self, machine=machine, arrays=arrays)
        return replace(self, machine=machine, arrays={WHOLE_ARRAY: self.arrays[name]})

    @property
    def uneven(self) -> bool:
        """Whether there are uneven splits: on a heterogeneous machine, but where each stage is on identical devices."""
        staged = self.stages not in {None, BEST} and not self.outside
        return self.heterogeneous is not None and (not staged or self.heterogeneous.nested)

    @classmethod
    def of(
        cls, plan: Plan, machine: Machine | HeterogeneousMachine | None = None, profile: Profile | None = None
    ) -> Request:
        """Rebuild the request of a stored plan.

        Args:
            plan: the plan.
            machine: the machine of the plan's score.
            profile: the measured times of the plan's cost.

        Raises:
            InputError: its cost, or its rule for shares, is unknown.
        """
        return cls(
            strategy=plan.strategy,
            space=plan.space,
            cost=plan.cost.name,
            parameters=plan.cost.parameters,
            search=plan.search,
            solver=plan.solver if plan.stages is None else plan.stages.solver,
            arrays=arrays_of(plan),
            pins=tuple(plan.pins),
            graph=plan.graph,
            machine=machine,
            shares=checked_shares(plan.shares, "equal", plan.cost.name, machine),
            integral=bool(plan.integral),
            stages=None if plan.stages is None else plan.stages.asked,
            schedule="1f1b" if plan.stages is None else plan.stages.schedule,
            parts=None if plan.stages is None else plan.stages.parts,
            microbatches=None if plan.stages is None else plan.stages.requested_microbatches,
            balance="time" if plan.stages is None else plan.stages.balance or "time",
            starts=() if plan.stages is None else plan.stages.given_starts,
            outside=0 if plan.stages is None else plan.stages.outside or 0,
            profile=profile,
            optimizer="sgd" if plan.score is None else plan.score.optimizer,
            refine=plan.refined is not None,
            chunks=None if plan.chunks is None else plan.chunks.asked,
            # The recorded baselines are the ones that competed.
            baselines=() if plan.baselines is None else plan.baselines.names,
            beyond_space=plan.baselines is not None,
            convention=plan.convention or PAPER,
            counted=(None if plan.score is None else plan.score.convention) or PAPER,
            # A search that no limit kept from anything takes the same way without one.
            limits=UNLIMITED if plan.limits is None else Limits(plan.limits.seconds, plan.limits.bytes),
            limited=plan.limits is not None,
            cut=cut_of(plan),
        )


def arrays_of(plan: Plan) -> dict[str, tuple[int, ...]]:
    """Return the requested ways of each level inside each group of identical devices of a stored plan."""
    if plan.stages is not None and plan.stages.arrays is not None:
        return {name: tuple(array) for name, array in plan.stages.arrays.items()}
    if plan.arrays is not None:
        return {name: tuple(array) for name, array in plan.arrays.items()}
    return {WHOLE_ARRAY: tuple(plan.array if plan.stages is None else plan.stages.array or plan.array)}


def cut_of(plan: Plan) -> Cut | None:
    """Return where the search of a stored plan was cut short."""
    limits = plan.limits
    if limits is None or limits.cut is None or limits.answers is None:
        return None
    return Cut(limits.cut, limits.answers)


def checked_limits(time_limit: float | None, memory_limit: float | None) -> Limits:
    """Return the limits of a joint search.

    Args:
        time_limit: seconds; None for the default.
        memory_limit: bytes; None for the default.

    Raises:
        OptionError: one is no number above 0.
    """
    found = []
    named = (
        ("time-limit", time_limit, DEFAULT_S, "seconds"),
        ("memory-limit", memory_limit, DEFAULT_BYTES, "bytes"),
    )
    for name, given, default, unit in named:
        number = default if given is None else given
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < math.inf:
            raise OptionError(name, f"found {shown(given)}", f"a number of {unit} above 0")
        found.append(number)
    return Limits(*found)


def space_text(text: str) -> str:
    """Return the text of a space, with the name of a strategy replaced by that strategy's space."""
    named = plugin_names("strategies")
    words = (load_strategy(word).space if word in named else word for word in text.split())
    return parse_space(" ".join(words), None).text


def checked_optimizer(name: str) -> str:
    """Check the name of an optimizer.

    Raises:
        UnknownNameError: there is no such optimizer.
    """
    if not isinstance(name, str) or name not in OPTIMIZERS:
        raise UnknownNameError("optimizer", str(name), OPTIMIZERS)
    return name


def checked_graph(name: str) -> Operators | None:
    """Return the graph of a name; None for the contracted one.

    Raises:
        UnknownNameError: there is no such graph.
    """
    if name not in GRAPHS:
        raise UnknownNameError("graph", name, GRAPHS)
    return "operators" if name == GRAPHS[1] else None


class Pipelined(NamedTuple):
    """The checked request for stages; its fields have the names of a request's.

    Attributes:
        stages: the number of stages, ``best``, or None for no stages.
        schedule: the order of work.
        microbatches: the number of microbatches; None for the schedule's default.
        balance: the quantity of the costliest stage that the partition minimises.
        starts: names of the first layers of the stages, or of their parts; empty to search the best partition.
        parts: the number of parts of each stage; None for one.
    """

    stages: int | str | None
    schedule: str
    microbatches: int | None
    balance: str = "time"
    starts: tuple[str, ...] = ()
    parts: int | None = None


def checked_stages(
    stages: int | str | None,
    schedule: str | None,
    microbatches: int | None,
    balance: str | None = None,
    starts: str | Sequence[str] | None = None,
    parts: int | None = None,
    *,
    cut: bool = True,
) -> Pipelined:
    """Check the request for stages; one stage becomes None if its layers are cut, as that is a plan without stages.

    Args:
        stages: the number of stages, or ``best``.
        schedule: the order of work.
        microbatches: the number of microbatches.
        balance: the quantity that the partition minimises.
        starts: names of the stages' first layers; a text separates them with commas.
        parts: the number of parts of each stage.
        cut: whether there are levels inside the stages.

    Raises:
        OptionError: a number is out of range, or the starts are not as many as the parts of all stages.
        UnknownNameError: there is no such schedule or balance.
    """
    for name, number in (("stages", None if stages == BEST else stages), ("microbatches", microbatches)):
        whole = isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST_DEVICES
        if number is not None and not whole:
            allowed = f"a whole number from 1 to {MOST_DEVICES:,}" + (", or best" if name == "stages" else "")
            raise OptionError(name, f"found {shown(number)}", allowed)
    order = checked_schedule("1f1b" if schedule is None else schedule)
    several = _checked_parts(parts, order)
    names = _checked_starts(starts, stages, several or 1)
    if balance is not None and balance not in BALANCES:
        raise UnknownNameError("balance", str(balance), BALANCES)
    count = (len(names) // (several or 1) or stages) if has_stages(stages, starts, cut=cut) else None
    return Pipelined(count, order, microbatches, balance or "time", names, several)


def _checked_parts(parts: int | None, schedule: str) -> int | None:
    """Return the number of parts of each stage: for the interleaved schedule 2 if not given, otherwise None."""
    if schedule != INTERLEAVED:
        return None
    if parts is None:
        return 2
    if not isinstance(parts, int) or isinstance(parts, bool) or not 2 <= parts <= MOST_DEVICES:
        raise OptionError("parts", f"found {shown(parts)}", f"a whole number from 2 to {MOST_DEVICES:,}")
    return parts


def named_starts(starts: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the stages' first layers; a text separates them with commas.

    Raises:
        OptionError: they are neither a text nor several names.
    """
    names = starts.split(",") if isinstance(starts, str) else starts
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise OptionError("starts", f"found {shown(starts)}", "names of layers, as 'conv1,conv3,fc1'")
    return tuple(name.strip() for name in names)


def has_stages(stages: int | str | None, starts: str | Sequence[str] | None, *, cut: bool) -> bool:
    """Return whether a request is for stages, by their number or by their first layers.

    Args:
        stages: the number of stages, or ``best``.
        starts: names of the stages' first layers.
        cut: whether there are levels inside the stages; one stage is then a plan without stages.
    """
    none = (None, 1) if cut else (None,)
    return any(count not in none for count in (stages, None if starts is None else len(named_starts(starts))))


class Nodes(NamedTuple):
    """The nodes that are asked for by their ways.

    Attributes:
        array: the ways of each level, the stages left out; None if they are not given.
        stages: the number of stages, ``best``, or None for no stages.
        outside: the number of levels outside the stages.
    """

    array: Sequence[int] | None
    stages: int | str | None
    outside: int


def checked_nodes(array: Sequence[int | str] | None, stages: int | str | None) -> Nodes:
    """Return the levels and the stages of an array, one of whose entries may be a number of stages, as ``s4``.

    Args:
        array: the ways of each level, outermost first, and of the stages.
        stages: the number of stages if they are outside all levels.

    Raises:
        OptionError: it has several numbers of stages, or one beside ``stages``.
    """
    places = [place for place, ways in enumerate(array or ()) if isinstance(ways, str)]
    if array is None or not places:
        return Nodes(array, stages, 0)  # type: ignore[arg-type]
    (first, *others), words = places, [str(array[place]) for place in places]
    count = words[0].removeprefix("s")
    if others or count == words[0] or not count.isdecimal():
        allowed = "ways of levels, and one number of stages among them, as 2, s4, 2"
        raise OptionError("array", f"found {shown(', '.join(words))}", allowed)
    if stages is not None:
        raise OptionError("stages", f"found {shown(stages)} and an array with {words[0]}", "one of the two")
    levels = [ways for place, ways in enumerate(array) if place != first]
    return Nodes(levels, int(count), first)  # type: ignore[arg-type]


def _checked_starts(
    starts: str | Sequence[str] | None, stages: int | str | None, parts: int = 1
) -> tuple[str, ...]:
    """Return the names of the first layers of the parts of all stages; empty if none are given."""
    if starts is None:
        return ()
    names = named_starts(starts)
    if not names:
        raise OptionError("starts", "found none", "the first layer of each stage")
    if len(names) % parts:
        raise OptionError("starts", f"found {len(names)}", f"a multiple of the {parts} parts of each stage")
    if stages not in {None, len(names) // parts}:
        raise OptionError("stages", f"found {shown(stages)} and starts of {len(names)}", "one of the two")
    return names


def checked_array(
    levels: int | None, array: Sequence[int] | None, *, stages: bool = False
) -> tuple[int, ...]:
    """Return the ways of each level; with stages there may be no levels inside."""
    if stages and array is None and levels == 0:
        return ()
    most = MOST_DEVICES.bit_length() - 1
    if array is None:
        count = 4 if levels is None else levels
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
            raise OptionError(
                "levels", f"found {count!r}", f"a whole number from {int(not stages)} to {most}"
            )
        return (2,) * count
    whole = all(isinstance(ways, int) and ways > 1 for ways in array)
    if not array or not whole or math.prod(array) > MOST_DEVICES:
        shown = "x".join(str(ways) for ways in array)
        raise OptionError(
            "array", f"found {shown:.60}", f"ways of 2 or more, at most {MOST_DEVICES:,} devices"
        )
    return tuple(array)


def checked_arrays(
    heterogeneous: HeterogeneousMachine, levels: int | None, array: Sequence[int] | None
) -> dict[str, tuple[int, ...]]:
    """Return the ways of each level inside each group of identical devices of a heterogeneous machine.

    Args:
        heterogeneous: the machine.
        levels: the number of uneven splits and two-way levels below; all devices of every group if neither is given.
        array: the ways of each uneven split and of each level below, in place of ``levels``.

    Raises:
        OptionError: they are not numbers of levels or ways.
        HardwareError: they do not fit the device groups, or the devices of a group.
    """
    if levels is None and array is None:
        from hypar.machine.routing import primes  # noqa: PLC0415 (only for a heterogeneous machine)

        found = {name: tuple(primes(machine.num_devices)) for name, machine, _ in heterogeneous.identical()}
    else:
        whole = checked_array(levels, array)
        found = {}
        for name, machine, depth in heterogeneous.identical():
            found[name] = whole[depth:]
            if len(whole) < depth or math.prod(found[name]) > machine.num_devices:
                raise HardwareError(
                    "levels" if array is None else "array",
                    f"found {len(whole)} levels, {depth} of them uneven splits above {name!r}",
                    f"at least {depth}, and at most its {machine.num_devices} devices below them",
                )
        if array is not None:
            require_ways(heterogeneous, whole)
    for name, machine, _ in heterogeneous.identical():
        if found[name]:
            machine.links(found[name])
    return found


def checked_shares(
    shares: str | None, own: str, cost: str, machine: Machine | HeterogeneousMachine | None
) -> str:
    """Check the rule for shares.

    Args:
        shares: the requested rule; None for the strategy's if the cost is of the slowest group, otherwise ``equal``.
        own: the strategy's rule.
        cost: name of the cost.
        machine: the machine; None if none is named.

    Raises:
        UnknownNameError: there is no such rule.
    """
    if shares is None:
        return own if isinstance(machine, HeterogeneousMachine) and load_cost(cost, {}).slowest else "equal"
    if shares not in SHARES:
        raise UnknownNameError("shares", shares, SHARES)
    return shares


def require_ways(heterogeneous: HeterogeneousMachine, array: tuple[int, ...]) -> None:
    """Check that the ways of each uneven split are the number of its device groups."""
    if array[0] != len(heterogeneous.groups):
        groups = len(heterogeneous.groups)
        raise HardwareError(
            "array", f"found {array[0]} ways where {heterogeneous.name!r} has {groups} groups", str(groups)
        )
    for group in heterogeneous.groups:
        if isinstance(group.machine, HeterogeneousMachine):
            require_ways(group.machine, array[1:])


def checked_chunks(chunks: str | int | None, graph: LayerGraph) -> Asked | None:
    """Check the requested chunks; None stands for no request.

    Args:
        chunks: a name of ``CHUNKS``, or a size, possibly as text from the command line.
        graph: the network.

    Raises:
        OptionError: the value is not allowed.
    """
    if chunks is None:
        return None
    if isinstance(chunks, str) and chunks in CHUNKS:
        return cast("Manner", chunks)
    from hypar.schedule.chunks.sizes import checked_size  # noqa: PLC0415 (only where chunks are asked for)

    weighted = sum(layer.weighted for layer in graph.contracted.layers)
    return checked_size(chunks, weighted, CHUNKS)
