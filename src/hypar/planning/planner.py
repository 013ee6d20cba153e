"""Plan a model by a strategy or a request, and find the shortest request for a stored plan."""

from __future__ import annotations

import gc
import math
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, Protocol

from hypar.activity import COUNTER, holding, tell
from hypar.costs.base import load_cost
from hypar.errors import InputError, OptionError, shown
from hypar.machine.work import is_step_table
from hypar.network.graph import LayerGraph, load_model
from hypar.network.nodes import computed_again
from hypar.network.training import ANYWHERE, RECOMPUTED
from hypar.plan.plan import Plan
from hypar.plan.records import Origin, remember
from hypar.plan.request import BEST, GRAPHS, PARAMETERS, Request
from hypar.planning.pins import parse_pin
from hypar.planning.question import Answer, Question, ask, load_search
from hypar.planning.refusals import require_together
from hypar.planning.resolved import (
    Resolved,
    checked_arrays,
    checked_chunks,
    checked_microbatches,
    drafted,
    require_whole,
    space_text,
)
from hypar.planning.searches.named import COUNTS, by_digits, priced
from hypar.planning.uneven.planner import Planner
from hypar.planning.uneven.tree import Branch
from hypar.registry import data_names, plugin_names
from hypar.sharding.placement import primes
from hypar.solve.limits import DEFAULT_BYTES, DEFAULT_S, UNLIMITED, Limits
from hypar.solve.solvers.base import load_solver

if TYPE_CHECKING:
    from hypar.machine.machine import Machine

USUAL = {"schedule": "1f1b", "balance": "time", "zero": 0, "recompute": RECOMPUTED[0]}
"""Options that a command does not say: usual in stages, and refused without, or how steps usually train."""

OF_TRAINING = {
    "levels", "array", "batch", "hardware", "optimizer", "precision", "zero", "recompute", "microbatches", "pins",
    "stages", "schedule", "parts", "time_limit", "search_memory",
}  # fmt: skip
"""Options that say how a network is trained on which devices, and for how long a plan is searched: alone they are of ``fit``."""

SHORTENED = (
    "convention", "strategy", "space", "cost", "inter_weight", "mode", "graph", "search", "shares", "parts",
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
    collected = gc.get_threshold()
    # Almost all objects of a plan stay until its end.
    gc.set_threshold(collected[0] and max(collected[0], 200_000), *collected[1:])
    try:
        plan = _decided(request, graph)
    finally:
        gc.set_threshold(*collected)
    plan.require_whole()
    origin = Origin(plan=plan, network=graph, machine=request.machine, profile=request.profile)
    for made in filter(None, (plan, plan.score)):
        remember(made, origin)
    return plan


def _decided(request: Resolved, graph: LayerGraph) -> Plan:
    if request.free:
        from hypar.planning.fit import LEAST, trained  # noqa: PLC0415 (only where the search chooses how a step trains)

        request, others = trained(request, graph)
        plan = _decided(request, graph)
        # The search may find what fits where none of the ways did that were run.
        found = plan.score is not None and plan.score.fits and others.startswith(LEAST)
        return plan.model_copy(update={"claim": plan.claim + (LEAST if found else others)})
    if request.stages is not None:
        from hypar.planning.stages.planner import decided_stages  # noqa: PLC0415 (only where they are asked for)

        with holding(COUNTER, max):
            whole = (
                _decided(replace(request, stages=None, microbatches=None), graph)
                if request.stages == BEST
                else None
            )
        return decided_stages(request, graph, whole)
    planner, node = planned(request, graph)
    if request.machine is None:
        return planner.decided(graph, node, planner.claim(node))
    from hypar.planning.engine import timed  # noqa: PLC0415 (only where a machine is named)

    return timed(planner, graph, node)


def planned(request: Resolved, graph: LayerGraph) -> tuple[Planner, Branch]:
    """Return the planner of a request without stages, and what its search decides for a network of ``Resolved.network``."""
    nodes = graph.nodes(request.graph)
    pins = tuple(parse_pin(text, nodes, request.levels) for text in request.pins)
    planner = Planner(request, nodes, pins, request.element_bytes(graph))
    if request.heterogeneous is None:
        node: Branch = planner.answered(*(by_digits(request, graph) or _answered(request, graph)))
    else:
        node = planner.planned(nodes)
    return planner, replace(node, microbatch=request.microbatch(graph))


def _answered(request: Resolved, graph: LayerGraph) -> tuple[Question, Answer]:
    """Return the answer of the request's search; where the least sum of seconds is no least step, one from which the engine searches on."""
    question = ask(request, graph)
    if question.overlaps and request.cost == "time" and request.solver in {None, COUNTS}:
        from hypar.planning.fastest import HIDDEN, is_least_time, proposer_of  # noqa: PLC0415 (only for least time)

        proposer = proposer_of(request, graph, question) if is_least_time(request, question) else None
        choices = None if proposer is None else proposer.found(HIDDEN[0])[0]
        if choices is not None:
            return question, priced(question, choices)
    return question, load_search(request.search).run(question)


def resolve(request: Request, network: LayerGraph) -> Resolved:
    """Return a request with nothing left open; raises ``InputError`` if it is not possible."""
    request = _read(request, network)
    on = request.hardware
    known = on is not None and not on.groups and on.memory_bytes is not None
    best, given = request.stages == BEST, request.given().keys() - {"strategy"}
    alone = known and request.strategy in {None, "fit"} and given <= OF_TRAINING
    if alone and network.over_tokens and not (best and given & {"schedule", "parts"}):
        # It tries numbers of stages anyway.
        request = replace(request, strategy="fit", stages=None if best else request.stages)
    own = drafted(request)
    require_together(request, own)
    chunks = checked_chunks(request.chunks, network)
    require_whole("zero", own.zero, 0, 3)
    if own.recompute not in ANYWHERE:
        nodes = network.nodes(own.graph).layers
        if not computed_again(nodes, own.recompute):
            found = f"found {own.recompute!r} of a network without any"
            raise OptionError("recompute", found, "attention, or blocks of numbered layers as h.0.q")
    if own.stages is None and own.microbatches is not None:
        layers = len(network.nodes(own.graph).layers)
        checked_microbatches(own.microbatches, own.schedule, request.batch or network.batch, 1, layers)
    arrays, limits = checked_arrays(request, own), _limits(request)
    return replace(own, space=space_text(own.space), arrays=arrays, chunks=chunks, limits=limits)


def _read(request: Request, network: LayerGraph) -> Request:
    """Return a request with its machine and measured times read from their files, and its pins in a tuple."""
    machine, profile = request.hardware, request.profile
    if machine is not None:
        from hypar.machine.load import load_machine  # noqa: PLC0415 (only where a machine is named)

        changes = {} if request.device_memory is None else {"memory.capacity": request.device_memory}
        machine = load_machine(machine, changes)
    elif request.device_memory is not None:
        raise OptionError("device-memory", "no machine is named", "one, as --hardware hmc")
    pins = (request.pins,) if isinstance(request.pins, str) else tuple(map(str, request.pins))
    request = replace(request, hardware=machine, pins=pins, device_memory=None)
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


def _limits(request: Request) -> Limits:
    for name, unit in (("time_limit", "seconds"), ("search_memory", "bytes")):
        own = getattr(request, name)
        if own is not None and not (type(own) in {int, float} and 0 < own < math.inf):
            raise OptionError(name.replace("_", "-"), f"found {shown(own)}", f"a number of {unit} above 0")
    return Limits(request.time_limit or DEFAULT_S, request.search_memory or DEFAULT_BYTES)


def plan_command(plan: Plan, file: str, network: LayerGraph, machine: Machine | None) -> str:
    """Return the ``hypar plan`` that leads to a plan again, and writes it to a file, without options that change nothing.

    The network has the mini-batch of the model file; the machine is that of the plan's score.
    """
    name, request = plan.model.name, _recorded(plan, machine)
    found = _led_to(Resolved.of(plan, machine), plan)
    # Of a strategy and a convention one may go only when the other one has gone.
    for left in (*SHORTENED, *SHORTENED):
        shorter: Request = replace(request, **{left: None})  # type: ignore[arg-type]
        with suppress(InputError):
            request = shorter if _led_to(resolve(shorter, network), plan) == found else request
    batch = None if plan.model.batch == network.batch else plan.model.batch
    options = replace(request, batch=batch, profile=plan.profile).command()
    model = name if name in data_names("models") else f"{name}.yaml"
    return shlex.join(["hypar", "plan", model, *options, "-o", file])


def _recorded(plan: Plan, machine: Machine | None) -> Request:
    """Return what a stored plan was asked for, with every option that it records but the mini-batch and measured times."""
    own, stages = Resolved.of(plan, machine), plan.stages
    exact = stages is None and (plan.solver not in plugin_names("solvers") or load_solver(plan.solver).exact)
    same = PARAMETERS.keys() & Resolved.__dataclass_fields__.keys()
    levels, array = _levels_of(plan, machine)
    taken = {name: getattr(own, name) for name in same if getattr(own, name) != USUAL.get(name)}
    taken |= {name: own.parameters.get(name) for name in ("inter_weight", "mode")}
    taken |= {"levels": levels, "array": array, "hardware": machine, "shares": plan.shares}
    taken |= {"graph": plan.graph or GRAPHS[0], "solver": None if exact else own.solver}
    taken |= {"stages": None if own.outside else own.stages}
    if stages is not None and stages.asked != BEST:
        usual = checked_microbatches(None, own.schedule, plan.model.batch, len(stages.stages))
        taken |= {"microbatches": None if own.microbatches == usual else own.microbatches}
    return Request(**taken)


def _led_to(request: Resolved, plan: Plan) -> tuple[object, ...]:
    """Return what the options that may be left out come to; a plan without a score was counted by none."""
    names = ("strategy", "space", "search", "graph", "shares", "parts", "convention")
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
