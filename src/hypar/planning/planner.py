"""Plan a model by a strategy or a request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hypar.activity import tell
from hypar.errors import OptionError, shown
from hypar.machine.step_times import is_step_table
from hypar.network.graph import LayerGraph, load_model
from hypar.plan.records import Origin, remember
from hypar.plan.request import BEST, PARAMETERS, Request
from hypar.planning.answers import searched
from hypar.planning.checked import (
    checked_array,
    checked_arrays,
    checked_chunks,
    checked_limits,
    checked_shares,
    checked_stages,
    space_text,
)
from hypar.planning.claims import claim_of
from hypar.planning.counting import conventions_of
from hypar.planning.records import decided, plan_of
from hypar.planning.refusals import Asked, require_together
from hypar.planning.resolved import BASELINES, USUAL, Resolved
from hypar.planning.searches.base import load_search
from hypar.planning.strategies.base import load_strategy
from hypar.sharding.conventions import MOVED
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.solve.limits import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.plan.plan import Plan
    from hypar.planning.records import Decided


def plan_model(
    model: LayerGraph | str | Path,
    *,
    levels: int | None = None,
    array: Sequence[int | str] | None = None,
    batch: int | None = None,
    strategy: str | None = None,
    space: str | None = None,
    cost: str | None = None,
    convention: str | None = None,
    search: str | None = None,
    solver: str | None = None,
    graph: str | None = None,
    inter_weight: float | None = None,
    mode: str | None = None,
    profile: Profile | str | Path | None = None,
    pins: str | Sequence[str] = (),
    hardware: Machine | str | Path | None = None,
    shares: str | None = None,
    stages: int | str | None = None,
    schedule: str | None = None,
    microbatches: int | None = None,
    parts: int | None = None,
    balance: str | None = None,
    starts: str | Sequence[str] | None = None,
    optimizer: str = "sgd",
    refine: bool = False,
    chunks: str | int | None = None,
    time_limit: float | None = None,
    search_memory: float | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Plan:
    """Choose how every layer is cut at every level.

    Args:
        model: a network, the path of a model file, or a bare name as ``vgg16``.
        levels: number of two-way levels, including the uneven splits of a heterogeneous machine; by default 4, or all
            devices of a heterogeneous machine.
        array: the ways of each level, outermost first, in place of ``levels``. A number of stages among them, as ``s4``,
            says which levels are outside the stages: ``(2, "s4", 2)`` has two replicas of four stages of two devices.
        batch: samples in a mini-batch; the model's own number by default.
        strategy: a space, a cost and a search under one name; ``hypar`` if not given.
        space: other choices than the strategy's, as dims (``batch,out_channels``), ``all``, or the name of a
            strategy to take the space of.
        cost: another cost than the strategy's.
        convention: how cost and score count bytes: ``paper``, ``moved`` or ``fused``, as ``docs/algebra.md`` says. If it
            is not given, the cost of a strategy that is named after a paper counts as the paper does and that of any
            other, or a cost that is asked for without a strategy, by ``moved``; the score counts by ``moved``.
        search: ``greedy`` or ``joint`` instead of the strategy's.
        solver: a solver by name instead of the cheapest exact one.
        graph: ``operators`` to plan pools too, otherwise ``contracted``; the strategy's own if not given.
        inter_weight: weight of the communication between layers in the cost, 1 if not given.
        mode: mode of the cost ``deepa``: ``exact`` or ``serial``.
        profile: measured times for the same cost, or their file; or a file of the measured times of a data-parallel step,
            .yaml or .csv, which take the place of the machine's.
        pins: choices to hold, each ``layer=choice`` or ``layer@level=choice``.
        hardware: a machine, the path of a hardware file, or a bare name as ``hmc``. The plan then has a score, and the
            cost ``time`` can be minimised: the engine takes the fastest of the search's plan and the plans of ``dp``,
            ``owt``, ``hypar`` and ``accpar`` that are within the space given by ``strategy`` or ``space``. The uneven
            splits of a heterogeneous machine are planned too.
        shares: the rule for the shares of device groups: ``equal``, ``linear`` for AccPar's rule, ``exact``, or
            ``layers`` for separate shares of each layer; the strategy's own if not given.
        stages: number of stages of consecutive layers, outside the levels over which each stage is cut separately, or
            ``best`` for the fastest number over the outermost levels. Needs ``hardware``; on a heterogeneous machine it is
            a multiple of the number of device groups, and each group holds equally many.
        schedule: the schedule of stages: ``1f1b`` if not given, ``interleaved``, ``gpipe`` or ``layer-block``.
        microbatches: microbatches in a mini-batch; by default as many as stages, or the next fewer that divide it.
        parts: number of parts of the network that each stage works for, in schedule ``interleaved``; 2 if not given.
        balance: the quantity of the costliest stage that the partition minimises: ``time``, as by default, ``memory``,
            ``traffic`` or ``macs``.
        starts: names of the first layers of the stages, or of their parts in turn, instead of the best partition, as
            ``conv1,conv3,fc1``.
        optimizer: ``sgd``, ``momentum`` or ``adam``, for updates and memory.
        refine: whether to refine the choices with the engine after the search, from the fastest of the same plans.
        chunks: how gradients are exchanged: ``layers`` for single layers, as by default, ``one`` for all layers, a size
            for chunks of that many layers by CGDP's rule, or ``best`` for the fastest of several by the engine.
        time_limit: seconds that a joint search may take, 60 if not given. It then answers with its best plan, and says how
            much lower the optimum may be.
        search_memory: bytes that its tables may take, 1 GB if not given.
        progress: called with the numbers of layers of a round of refinement, or of stage tries: done, and in all.

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
    options = locals()
    request = Request(**{name: options[name] for name in PARAMETERS})
    network = model if isinstance(model, LayerGraph) else load_model(model)
    resolved = resolve(request, network)
    return follow(resolved, network if batch is None else network.with_batch(batch), progress)


def resolve(request: Request, network: LayerGraph) -> Resolved:
    """Return a request with nothing left open.

    Raises:
        InputError: it is not possible.
    """
    strategy = USUAL if request.strategy is None else request.strategy
    named = load_strategy(strategy)
    machine = request.hardware
    if machine is not None:
        from hypar.machine.load import load_machine  # noqa: PLC0415 (only where a machine is named)

        machine = load_machine(machine)
    pins = (request.pins,) if isinstance(request.pins, str) else tuple(map(str, request.pins))
    request = replace(request, hardware=machine, pins=pins)
    if is_step_table(request.profile):
        request = _on_measured(request, network)
    request = replace(request, profile=_profile(request.profile))
    machine = request.hardware
    asked = Asked.whose(request)
    own = named.heterogeneous_cost if asked.uneven and named.heterogeneous_cost else named.cost
    cost = own if request.cost is None else request.cost
    rule = checked_shares(request.shares, named.shares, cost, machine if asked.uneven else None)
    asked = replace(asked, cost=cost)
    require_together(asked)
    pipeline = checked_stages(
        asked.stages,
        request.schedule,
        request.microbatches,
        request.balance,
        request.starts,
        request.parts,
        cut=asked.cut,
    )
    # Without a strategy, a cost that is asked for is no paper's.
    papers = request.strategy is not None or cost == own
    counted = conventions_of(request.convention, named.convention if papers else MOVED, cost)
    given = {"inter_weight": request.inter_weight, "mode": request.mode}
    return Resolved(
        strategy=strategy,
        space=named.space if request.space is None else space_text(request.space),
        cost=cost,
        parameters={name: value for name, value in given.items() if value is not None},
        search=named.search if request.search is None else request.search,
        graph="operators" if (request.graph or named.graph) == "operators" else None,
        solver=request.solver,
        arrays=_arrays(asked, pipeline.stages),
        pins=pins,
        machine=machine,
        shares=rule,
        optimizer=request.optimizer,
        profile=request.profile,
        refine=request.refine,
        chunks=checked_chunks(request.chunks, network),
        baselines=BASELINES if machine is not None and (cost == "time" or request.refine) else (),
        beyond_space=request.strategy is None and request.space is None and cost == "time",
        convention=counted.cost,
        counted=counted.score,
        outside=asked.outside if pipeline.stages is not None else 0,
        limits=checked_limits(request.time_limit, request.search_memory),
        **pipeline._asdict(),
    )


def follow(
    request: Resolved, graph: LayerGraph, progress: Callable[[int, int], None] = lambda *_: None
) -> Plan:
    """Plan a network by a request; ``progress`` is called as in ``plan_model``. The plan knows what it was made from.

    Raises:
        InputError: the request does not suit the network.
        TableLimitError: the tables of an exact search would not fit.
    """
    graph = request.network(graph)
    limited = request.search == "joint" and request.limits != UNLIMITED
    most = f", at most {request.limits.seconds:g} s a search" if limited else ""
    tell(f"planning {graph.name} by {request.strategy}{most}")
    plan = plan_of(request, graph, _decided(request, graph, progress))
    origin = Origin(plan=plan, network=graph, machine=request.machine, profile=request.profile)
    for made in filter(None, (plan, plan.score)):
        remember(made, origin)
    return plan


def _decided(request: Resolved, graph: LayerGraph, progress: Callable[[int, int], None]) -> Decided:
    if request.stages is not None:
        from hypar.planning.stages.records import decided_stages  # noqa: PLC0415 (as above)

        whole = None
        if request.stages == BEST:
            whole = _decided(replace(request, stages=None), graph, lambda *_: None)
        return decided_stages(request, graph, whole, progress)
    if request.machine is not None:
        from hypar.planning.timing import timed  # noqa: PLC0415 (only where a machine is named)

        return timed(request, graph, progress)
    question, pins, found = searched(request, graph)
    claim = claim_of(request, question, found, load_search(request.search).claim)
    return decided(request, question, pins, found, claim)


def _on_measured(request: Request, network: LayerGraph) -> Request:
    """Return a request on the machine of a table of measured step times.

    Raises:
        OptionError: it has a mini-batch besides.
    """
    if request.batch is not None:
        raise OptionError("batch", "given together with a table of measured times", "the mini-batch measured")
    from hypar.machine.profiles import measured_machine, whole_array  # noqa: PLC0415 (only where they are)

    machine = measured_machine(str(request.profile), request.hardware, network)
    free = request.levels is None and request.array is None and request.stages is None
    array = whole_array(machine) if free else request.array
    return replace(request, hardware=machine, array=array, profile=None)


def _arrays(asked: Asked, stages: int | str | None) -> dict[str, tuple[int, ...]]:
    """Return the ways of each level inside each group of identical devices, or inside each stage on it."""
    machine, levels, array = asked.machine, asked.levels, asked.array
    if machine is None or not machine.groups:
        return {WHOLE_ARRAY: checked_array(levels, array, stages=stages not in {None, BEST})}
    if stages in {None, BEST}:
        return checked_arrays(machine, levels, array)
    from hypar.planning.stages.sites import stage_arrays  # noqa: PLC0415 (only where stages are asked for)

    return stage_arrays(machine, stages, levels, array, asked.outside)


def _profile(profile: Profile | str | Path | None) -> Profile | None:
    """Return measured times, read from their file if it is a path."""
    if profile is None:
        return None
    from hypar.machine.profiles import Profile, read_profile  # noqa: PLC0415 (only where times are named)

    if isinstance(profile, Profile):
        return profile
    if not isinstance(profile, str | Path):
        raise OptionError("profile", f"found {shown(profile)}", "measured times, or their file")
    return read_profile(profile)
