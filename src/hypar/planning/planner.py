"""Plan a model by a strategy or a request, and find the shortest request for a stored plan."""

from __future__ import annotations

import math
import shlex
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

from hypar.activity import tell, uncounted
from hypar.costs.base import load_cost
from hypar.errors import InputError, OptionError, shown
from hypar.machine.step_times import is_step_table
from hypar.network.graph import LayerGraph, load_model
from hypar.plan.records import Origin, of_score, remember
from hypar.plan.request import BEST, GRAPHS, Request
from hypar.plan.stages import INTERLEAVED
from hypar.planning.pins import parse_pin
from hypar.planning.question import ask, load_search
from hypar.planning.refusals import Asked, follows, require_together
from hypar.planning.resolved import (
    BASELINES,
    USUAL,
    Resolved,
    checked_array,
    checked_arrays,
    checked_chunks,
    checked_microbatches,
    require_whole,
    space_text,
)
from hypar.planning.strategies.base import load_strategy
from hypar.planning.uneven.planner import Planner
from hypar.registry import data_names, plugin_names
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.placement import primes
from hypar.sharding.tree import MOST_DEVICES, WHOLE_ARRAY
from hypar.solve.limits import DEFAULT_BYTES, DEFAULT_S, UNLIMITED, Limits
from hypar.solve.solvers.base import load_solver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.machine.machine import Machine
    from hypar.plan.plan import Plan
    from hypar.planning.records import Node

RECORDED = ("strategy", "space", "cost", "convention", "search", "pins", "optimizer", "refine", "chunks")
"""Options that a stored plan says as planning takes them."""

SHORTENED = (
    "convention", "strategy", "space", "cost", "inter_weight", "mode", "graph", "search", "shares", "schedule", "parts",
)  # fmt: skip
"""Options that are left out of a command line where the plan is the same without them."""


Model = LayerGraph | str | Path
P = ParamSpec("P")


class _Planning(Protocol[P]):
    def __call__(self, model: Model, *args: P.args, **options: P.kwargs) -> Plan: ...


def _taking(request: Callable[P, Request]) -> Callable[[Callable[[Model, Request], Plan]], _Planning[P]]:
    """Return a decorator for functions of a model and a request, which then take the arguments of the request."""

    def taking(plan: Callable[[Model, Request], Plan]) -> _Planning[P]:
        @wraps(plan)
        def planned(model: Model, *args: P.args, **options: P.kwargs) -> Plan:
            return plan(model, request(*args, **options))

        each = signature(request).parameters.values()
        own = [one.replace(annotation=one.annotation.__origin__) for one in each]
        whole = signature(plan).replace(parameters=[signature(plan).parameters["model"], *own])
        planned.__signature__ = whole  # type: ignore[attr-defined]
        return planned

    return taking


@_taking(Request)
def plan_model(model: Model, request: Request) -> Plan:
    """Choose how every layer of a network is cut at every level.

    The model is a network, the path of a model file, or a bare name as ``vgg16``. The other arguments are the options of
    ``hypar plan``, which ``docs/cli.md`` describes; where one is not given, the strategy's own or the usual one holds. Besides:

    - ``array`` is a sequence of ways, outermost first, with a number of stages among them as text: ``(2, "s4", 2)`` has two
      replicas of four stages of two devices. Levels include the uneven splits of a heterogeneous machine, of which all devices
      are used if neither ``levels`` nor ``array`` is given;
    - ``pins`` and ``starts`` are sequences of texts, or a single text;
    - ``hardware`` may be a machine itself, and ``profile`` measured times themselves. With a machine the plan has a score, and the
      cost ``time`` can be minimised: the engine takes the fastest of the search's plan and the plans of ``dp``, ``owt``, ``hypar``
      and ``accpar`` that are within the space given by ``strategy`` or ``space``.

    Returns:
        The plan; its ``claim`` states the space, search and objective for which it is optimal.

    Raises:
        InputError: the request is not possible.
        TableLimitError: the tables of an exact search would not fit.

    Examples:
        >>> plan = plan_model("lenet-c", levels=2)
        >>> plan.dims("fc1"), plan.cost.value
        (('in_channels', 'batch'), 6227680)
    """
    network = load_model(model)
    return follow(resolve(request, network), load_model(network, batch=request.batch))


def follow(request: Resolved, graph: LayerGraph) -> Plan:
    """Plan a network by a request; errors as of ``plan_model``. The plan knows what it was made from."""
    graph = request.network(graph)
    limited = request.search == "joint" and request.limits != UNLIMITED
    most = f", at most {request.limits.seconds:g} s a search" if limited else ""
    tell(f"planning {graph.name} by {request.strategy}{most}")
    plan = _decided(request, graph)
    plan.require_whole()
    origin = Origin(plan=plan, network=graph, machine=request.machine, profile=request.profile)
    for made in filter(None, (plan, plan.score)):
        remember(made, origin)
    return plan


def _decided(request: Resolved, graph: LayerGraph) -> Plan:
    if request.stages is not None:
        from hypar.planning.stages.planner import decided_stages  # noqa: PLC0415 (only where they are asked for)

        with uncounted():
            whole = _decided(replace(request, stages=None), graph) if request.stages == BEST else None
        return decided_stages(request, graph, whole)
    planner, node = _planned(request, graph)
    if request.machine is None:
        return planner.decided(graph, node, planner.claim(node))
    from hypar.planning.climb import timed  # noqa: PLC0415 (only where a machine is named)

    return timed(planner, graph, node)


def _planned(request: Resolved, graph: LayerGraph) -> tuple[Planner, Node]:
    if request.heterogeneous is not None:
        nodes = graph.nodes(request.graph)
        pins = tuple(parse_pin(text, nodes, request.levels) for text in request.pins)
        groups = Planner(request, nodes, pins, graph.element_bytes)
        return groups, groups.planned(nodes)
    found = None
    if len(request.array) == 1:
        from hypar.planning.flat import by_digits  # noqa: PLC0415 (only for a single level, whose devices may be numbered)

        found = by_digits(request, graph)
    question = ask(request, graph) if found is None else found[0]
    answer = load_search(request.search).run(question) if found is None else found[1]
    planner = Planner(request, question.graph, question.pins, graph.element_bytes)
    return planner, planner.answered(question, answer)


def resolve(request: Request, network: LayerGraph) -> Resolved:
    """Return a request with nothing left open; raises ``InputError`` if it is not possible."""
    strategy = USUAL if request.strategy is None else request.strategy
    named = load_strategy(strategy)
    request = _read(request, network)
    machine, asked = request.hardware, Asked.whose(request)
    own = named.heterogeneous_cost if asked.uneven and named.heterogeneous_cost else named.cost
    cost = own if request.cost is None else request.cost
    asked = replace(asked, cost=cost)
    require_together(asked)
    shares = named.shares if asked.uneven and load_cost(cost, {}).slowest else "equal"
    # Without a strategy, a cost that is asked for is no paper's.
    usual = named.convention if request.strategy is not None or cost == own else MOVED
    counted = (request.convention or usual, request.convention or of_score(usual))
    convention, of_step = counted if follows(cost) else (PAPER, PAPER)
    stages = _stages(asked)
    return Resolved(
        strategy=strategy,
        space=named.space if request.space is None else space_text(request.space),
        cost=cost,
        parameters=asked.parameters,
        search=named.search if request.search is None else request.search,
        graph="operators" if (request.graph or named.graph) == "operators" else None,
        solver=request.solver,
        arrays=_arrays(asked, stages["stages"]),
        pins=tuple(request.pins),
        machine=machine,
        shares=shares if request.shares is None else request.shares,
        optimizer=request.optimizer,
        profile=request.profile,
        refine=request.refine,
        chunks=checked_chunks(request.chunks, network),
        baselines=BASELINES if machine is not None and (cost == "time" or request.refine) else (),
        beyond_space=request.strategy is None and request.space is None and cost == "time",
        convention=convention,
        counted=of_step,
        limits=_limits(request),
        **stages,
    )


def _read(request: Request, network: LayerGraph) -> Request:
    """Return a request with its machine and measured times read from their files, and its pins in a tuple."""
    machine, profile = request.hardware, request.profile
    if machine is not None:
        from hypar.machine.load import load_machine  # noqa: PLC0415 (only where a machine is named)

        machine = load_machine(machine)
    pins = (request.pins,) if isinstance(request.pins, str) else tuple(map(str, request.pins))
    request = replace(request, hardware=machine, pins=pins)
    if profile is None:
        return request
    from hypar.machine.profiles import Profile, measured_machine, read_profile, whole_array  # noqa: PLC0415 (only where times are named)

    if not is_step_table(profile):
        if not isinstance(profile, Profile | str | Path):
            raise OptionError("profile", f"found {shown(profile)}", "measured times, or their file")
        return replace(request, profile=profile if isinstance(profile, Profile) else read_profile(profile))
    if request.batch is not None:
        raise OptionError("batch", "given together with a table of measured times", "the mini-batch measured")
    machine = measured_machine(str(profile), machine, network)
    free = request.levels is None and request.array is None and request.stages is None
    array = whole_array(machine) if free else request.array
    return replace(request, hardware=machine, array=array, profile=None)


def _stages(asked: Asked) -> dict[str, Any]:
    """Return the checked options of stages; one stage becomes None if its layers are cut, as that is a plan without stages."""
    for name, least, more in (("stages", 1, ", or best"), ("microbatches", 1, ""), ("parts", 2, "")):
        number = getattr(asked, name)
        if number is not None and (name, number) != ("stages", BEST):
            require_whole(name, number, least, MOST_DEVICES, more)
    schedule, starts = asked.schedule or "1f1b", asked.first_layers
    parts = (asked.parts or 2) if schedule == INTERLEAVED else None
    count = asked.stages if starts is None else len(starts) // (parts or 1)
    if starts == ():
        raise OptionError("starts", "found none", "the first layer of each stage")
    if starts and len(starts) % (parts or 1):
        allowed = f"a multiple of the {parts} parts of each stage"
        raise OptionError("starts", f"found {len(starts)}", allowed)
    if asked.stages not in {None, count}:
        found = f"found {shown(asked.stages)} and starts of {count}"
        raise OptionError("stages", found, "one of the two")
    return {
        "stages": count if asked.staged else None,
        "schedule": schedule,
        "parts": parts,
        "microbatches": asked.microbatches,
        "balance": asked.balance or "time",
        "starts": starts or (),
        "outside": asked.outside if asked.staged else 0,
    }


def _arrays(asked: Asked, stages: int | str | None) -> dict[str, tuple[int, ...]]:
    """Return the ways of each level inside each group of identical devices, or inside each stage on it."""
    machine, levels, array = asked.hardware, asked.levels, asked.array
    if machine is None or not machine.groups:
        return {WHOLE_ARRAY: checked_array(levels, array, stages=stages not in {None, BEST})}
    count = stages if isinstance(stages, int) else None
    return checked_arrays(machine, levels, array, count, asked.outside)


def _limits(request: Request) -> Limits:
    """Return the limits of a joint search, in seconds and in bytes."""
    given = ("time-limit", request.time_limit, "seconds"), ("search-memory", request.search_memory, "bytes")
    for name, own, unit in given:
        number = isinstance(own, int | float) and not isinstance(own, bool)
        if own is not None and not (number and 0 < own < math.inf):
            raise OptionError(name, f"found {shown(own)}", f"a number of {unit} above 0")
    return Limits(request.time_limit or DEFAULT_S, request.search_memory or DEFAULT_BYTES)


def asked_of(plan: Plan, machine: Machine | None = None) -> Request:
    """Return what a stored plan was asked for, with every option that it records, on the machine of its score."""
    own, stages, exact = Resolved.of(plan, machine), plan.stages, True
    taken: dict[str, Any] = {name: getattr(own, name) for name in RECORDED}
    if stages is not None:
        taken |= {name: getattr(own, name) for name in ("schedule", "parts", "microbatches")}
        taken |= {"balance": stages.balance, "starts": own.starts or None}
        taken["stages"] = None if own.outside else own.stages
    elif plan.solver in plugin_names("solvers"):
        exact = load_solver(plan.solver).exact
    taken["levels"], taken["array"] = _levels_of(plan, machine)
    return Request(
        **taken,
        batch=plan.model.batch,
        inter_weight=own.parameters.get("inter_weight"),
        mode=own.parameters.get("mode"),
        profile=plan.profile,
        graph=plan.graph or GRAPHS[0],
        solver=None if stages is None and exact else own.solver,
        hardware=machine,
        shares=plan.shares,
    )


def plan_command(plan: Plan, file: str, network: LayerGraph, machine: Machine | None) -> str:
    """Return the ``hypar plan`` that leads to a plan again, and writes it to a file.

    The network has the mini-batch of the model file; the machine is that of the plan's score.
    """
    name = plan.model.name
    model = name if name in data_names("models") else f"{name}.yaml"
    options = _shortest(plan, network, machine).command()
    return shlex.join(["hypar", "plan", model, *options, "-o", file])


def _shortest(plan: Plan, network: LayerGraph, machine: Machine | None) -> Request:
    """Return the request for a plan without the options that change nothing."""
    request, stages = replace(asked_of(plan, machine), profile=None), plan.stages
    if plan.model.batch == network.batch:
        request = replace(request, batch=None)
    if stages is not None and stages.asked != BEST:
        usual = checked_microbatches(None, stages.schedule, plan.model.batch, len(stages.stages))
        request = replace(request, microbatches=None if stages.microbatches == usual else stages.microbatches)
    found = _led_to(Resolved.of(plan, machine), plan)
    # Of a strategy and a convention one may go only when the other one has gone.
    without: Any = [{name: None} for name in SHORTENED]
    for left in (*without, *without):
        shorter = replace(request, **left)
        with suppress(InputError):
            request = shorter if _led_to(resolve(shorter, network), plan) == found else request
    return replace(request, profile=plan.profile)


def _led_to(request: Resolved, plan: Plan) -> tuple[object, ...]:
    """Return what the options that may be left out come to; a plan without a score was counted by none."""
    names = ("strategy", "space", "search", "graph", "shares", "schedule", "parts", "convention")
    found = (getattr(request, name) for name in (*names, *["counted"] * (plan.score is not None)))
    return load_cost(request.cost, request.parameters), *found


def _levels_of(plan: Plan, machine: Machine | None) -> tuple[int | None, tuple[int | str, ...] | None]:
    """Return the number of two-way levels, or the ways of levels that are not all two; None for the machine's own."""
    array: Sequence[int] | None = plan.array if plan.stages is None else plan.stages.array or plan.array
    if machine is not None and machine.groups:
        array = uneven_array(plan, machine)
    if array is None:
        return None, None
    if plan.stages is not None and plan.stages.outside:
        outside = plan.stages.outside
        return None, (*array[:outside], f"s{plan.stages.asked}", *array[outside:])
    return (len(array), None) if {*array} <= {2} else (None, tuple(array))


def uneven_array(plan: Plan, machine: Machine) -> tuple[int, ...] | None:
    """Return the levels of a plan for a heterogeneous machine; None if it uses all devices in the usual levels alone.

    Of stages on its device groups they are the levels inside each stage.
    """
    whole = {name: own.num_devices for name, own, _ in machine.leaves()}
    groups = [group for group in plan.groups if not group.idle]
    each = 1 if plan.stages is None else plan.stages.of_each_group
    nested = plan.stages is not None and plan.stages.outside
    if not nested and all(group.array == tuple(primes(whole[group.name] // each)) for group in groups):
        return None
    return (*(split.ways for split, _ in groups[0].above), *groups[0].array)
