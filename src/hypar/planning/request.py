"""What a plan follows from besides the network, and the question to a search that it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hypar.errors import OptionError
from hypar.plan.chunks import CHUNKS, Asked, Manner

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph


import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypar.costs.base import load_cost
from hypar.errors import UnknownNameError
from hypar.machine.mixed import MixedMachine
from hypar.network.training import OPTIMIZERS
from hypar.plan.plan import MOST_DEVICES, Operators, Plan
from hypar.plan.splits import RULES
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.schedule.pipeline_orders import checked_schedule
from hypar.sharding.space import parse_space

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.chunks import Asked


SHARES = (*RULES, "layers")
"""How the shares of a mixed machine's forks may be found; ``layers`` gives each layer its own."""

FIXED = ("dp", "owt")
"""Strategies that decide without a search: what practitioners do by default."""

BASELINES = (*FIXED, "hypar", "accpar")
"""The strategies that compete with a search for least time."""

BEST = "best"
"""In place of a number of stages: as many as are fastest."""

GRAPHS = ("contracted", "operators")
"""What can be planned of a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that a plan follows from but the network; a plan records it.

    Attributes:
        strategy: the name that it goes by.
        space: the choices allowed, as text.
        cost: name of the cost.
        parameters: parameters of the cost to set; the others stay as it has them by itself.
        search: name of the search.
        graph: ``operators`` to plan pools too; None for weighted layers and joins alone.
        solver: name of the solver; None for the cheapest exact one.
        array: ways of each level, outermost first.
        pins: choices to hold, as text.
        machine: what the plan is for; None where no hardware is named.
        optimizer: whose updates a score counts.
        profile: measured times for a cost that takes them.
        refine: whether to refine the plan against the engine.
        mixed: the machine of unlike groups that the plan is for, instead.
        arrays: ways of each level inside each of its groups of like devices.
        shares: how the shares of its forks are found.
        integral: whether these are of whole elements.
        stages: how many stages are cut each by itself, or ``best``; None for no pipeline.
        schedule: in what order they work.
        microbatches: of a mini-batch; None for as many as stages, or the next fewer that divide it.
        chunks: the chunks that gradients are exchanged in; None for every layer by itself.
        baselines: strategies that the engine times beside the search's plan; the fastest is taken.
        beyond_space: whether they compete with choices that are not in the space, as none was asked for.
    """

    strategy: str
    space: str
    cost: str
    parameters: Mapping[str, float | str]
    search: str
    solver: str | None
    array: tuple[int, ...]
    pins: tuple[str, ...]
    graph: Operators | None = None
    machine: Machine | None = None
    optimizer: str = "sgd"
    profile: Profile | None = None
    refine: bool = False
    mixed: MixedMachine | None = None
    arrays: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    shares: str = "equal"
    integral: bool = False
    stages: int | str | None = None
    schedule: str = "1f1b"
    microbatches: int | None = None
    chunks: Asked | None = None
    baselines: tuple[str, ...] = ()
    beyond_space: bool = False

    @classmethod
    def of(
        cls, plan: Plan, machine: Machine | MixedMachine | None = None, profile: Profile | None = None
    ) -> Recipe:
        """What a stored plan follows from.

        Args:
            plan: the plan.
            machine: the machine that the plan's score names.
            profile: the measured times that the plan names.

        Raises:
            InputError: it names no cost, or no manner to find shares in.
        """
        return cls(
            strategy=plan.strategy,
            space=plan.space,
            cost=plan.cost.name,
            parameters=plan.cost.parameters,
            search=plan.search,
            solver=plan.solver if plan.stages is None else plan.stages.solver,
            array=tuple(plan.array if plan.stages is None else plan.stages.array or plan.array),
            pins=tuple(plan.pins),
            graph=plan.graph,
            machine=None if isinstance(machine, MixedMachine) else machine,
            mixed=machine if isinstance(machine, MixedMachine) else None,
            arrays={name: tuple(array) for name, array in (plan.arrays or {}).items()},
            shares=checked_shares(
                plan.shares,
                "equal",
                plan.cost.name,
                machine if isinstance(machine, MixedMachine) else None,
                integral=bool(plan.integral),
            ),
            integral=bool(plan.integral),
            stages=None if plan.stages is None else plan.stages.asked,
            schedule="1f1b" if plan.stages is None else plan.stages.schedule,
            microbatches=None
            if plan.stages is None or plan.stages.asked == "best"
            else plan.stages.microbatches,
            profile=profile,
            optimizer="sgd" if plan.score is None else plan.score.optimizer,
            refine=plan.refined is not None,
            chunks=None if plan.chunks is None else plan.chunks.asked,
            # Those that are recorded were let in.
            baselines=() if plan.baselines is None else plan.baselines.names,
            beyond_space=plan.baselines is not None,
        )


def space_text(text: str) -> str:
    """A space as it stands, the name of a strategy in it standing for that strategy's."""
    named = plugin_names("strategies")
    words = (load_strategy(word).space if word in named else word for word in text.split())
    return parse_space(" ".join(words)).text


def checked_optimizer(name: str) -> str:
    """An optimizer that there is.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if not isinstance(name, str) or name not in OPTIMIZERS:
        raise UnknownNameError("optimizer", str(name), OPTIMIZERS)
    return name


def checked_graph(name: str) -> Operators | None:
    """The graph of a name; None for the contracted one.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in GRAPHS:
        raise UnknownNameError("graph", name, GRAPHS)
    return "operators" if name == GRAPHS[1] else None


def checked_stages(
    stages: int | str | None, schedule: str | None, microbatches: int | None
) -> tuple[int | str | None, str, int | None]:
    """Stages, their schedule and their microbatches; no stages for one.

    Raises:
        OptionError: no such number, or something is asked of stages where there are none.
        UnknownNameError: there is no such schedule.
    """
    for name, number in (("stages", None if stages == "best" else stages), ("microbatches", microbatches)):
        whole = isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST_DEVICES
        if number is not None and not whole:
            allowed = f"a whole number from 1 to {MOST_DEVICES:,}" + (", or best" if name == "stages" else "")
            raise OptionError(name, f"found {number!r}", allowed)
    for name, given in (("schedule", schedule), ("microbatches", microbatches)):
        if given is not None and stages in {None, 1}:
            raise OptionError(name, "given without stages", "stages, as --stages 4")
    if microbatches is not None and stages == "best":
        raise OptionError("microbatches", "given where the best stages are sought", "a number of stages")
    order = checked_schedule("1f1b" if schedule is None else schedule)
    return (None if stages == 1 else stages), order, microbatches


def checked_array(
    levels: int | None, array: Sequence[int] | None, *, stages: bool = False
) -> tuple[int, ...]:
    """The ways of each level; with stages there may be none inside."""
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
    if levels is not None:
        raise OptionError("levels", "given together with an array", "one of the two")
    whole = all(isinstance(ways, int) and ways > 1 for ways in array)
    if not array or not whole or math.prod(array) > MOST_DEVICES:
        shown = "x".join(str(ways) for ways in array)
        raise OptionError(
            "array", f"found {shown:.60}", f"ways of 2 or more, at most {MOST_DEVICES:,} devices"
        )
    return tuple(array)


def checked_arrays(
    mixed: MixedMachine, levels: int | None, array: Sequence[int] | None
) -> dict[str, tuple[int, ...]]:
    """The ways of each level inside each group of like devices of a mixed machine.

    Args:
        mixed: the machine.
        levels: forks and two-way levels below them; all devices of every group if neither is given.
        array: the sides of each fork and the ways of each level below instead.

    Raises:
        OptionError: they do not fit the forks.
        HardwareError: they do not fit a group.
    """
    if levels is None and array is None:
        from hypar.machine.routing import primes  # noqa: PLC0415 (only for a mixed machine)

        found = {name: tuple(primes(machine.num_devices)) for name, machine, _ in mixed.like()}
    else:
        whole = checked_array(levels, array)
        found = {}
        for name, machine, depth in mixed.like():
            found[name] = whole[depth:]
            if len(whole) < depth or math.prod(found[name]) > machine.num_devices:
                raise OptionError(
                    "levels" if array is None else "array",
                    f"found {len(whole)} levels, {depth} of them forks above {name!r}",
                    f"at least {depth}, and at most its {machine.num_devices} devices below them",
                )
        if array is not None:
            _require_sides(mixed, whole)
    for name, machine, _ in mixed.like():
        if found[name]:
            machine.links(found[name])
    return found


def checked_shares(
    shares: str | None, own: str, cost: str, mixed: MixedMachine | None, *, integral: bool
) -> str:
    """How shares are found.

    Args:
        shares: as asked; None for the strategy's own where the cost is that of the slowest side, equal ones elsewhere.
        own: the strategy's.
        cost: the cost's name.
        mixed: the machine; None where all devices are alike.
        integral: whether shares of whole elements are asked for.

    Raises:
        OptionError: there are none to be found, as all devices are alike or all sides' costs are added up.
        UnknownNameError: there is no such manner.
    """
    if mixed is None:
        if shares is not None or integral:
            option = "shares" if shares is not None else "integral"
            raise OptionError(option, "all devices are alike and share equally", "a machine of unlike groups")
        return "equal"
    slowest = load_cost(cost, {}).slowest
    found = (own if slowest else "equal") if shares is None else shares
    if found not in SHARES:
        raise UnknownNameError("shares", found, SHARES)
    if found != "equal" and not slowest:
        raise OptionError(
            "shares", f"cost {cost!r} has no slowest side to be relieved", "equal, or cost accpar"
        )
    return found


def _require_sides(mixed: MixedMachine, array: tuple[int, ...]) -> None:
    """Refuse ways that are not the sides of a fork."""
    if array[0] != len(mixed.sides):
        sides = len(mixed.sides)
        raise OptionError(
            "array", f"found {array[0]} ways where {mixed.name!r} has {sides} groups", str(sides)
        )
    for side in mixed.sides:
        if isinstance(side.machine, MixedMachine):
            _require_sides(side.machine, array[1:])


def checked_chunks(chunks: str | int | None, graph: LayerGraph, *, machine: bool) -> Asked | None:
    """The chunks asked for; None where none are.

    Args:
        chunks: a name of ``CHUNKS``, or a size, from the command line too.
        graph: the network.
        machine: whether one is named.

    Raises:
        OptionError: nothing of the kind, or there is no machine.
    """
    if chunks is None:
        return None
    if not machine:
        raise OptionError("chunks", "no machine is named", "one, as --hardware hmc")
    if isinstance(chunks, str) and chunks in CHUNKS:
        return cast("Manner", chunks)
    from hypar.schedule.chunks.sizes import checked_size  # noqa: PLC0415 (only where chunks are asked for)

    weighted = sum(layer.weighted for layer in graph.contracted.layers)
    return checked_size(chunks, weighted, CHUNKS)
