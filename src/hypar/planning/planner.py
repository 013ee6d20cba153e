"""Plan a model by a strategy or a request."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypar.activity import tell
from hypar.network.graph import LayerGraph, load_model
from hypar.plan.records import Origin, remember
from hypar.plan.request import BEST, PARAMETERS, Request
from hypar.planning.asked import resolve
from hypar.planning.question import ask, load_search
from hypar.planning.records import claim_of, decided, plan_of
from hypar.solve.limits import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.plan.plan import Plan
    from hypar.planning.question import Answer, Question
    from hypar.planning.records import Decided
    from hypar.planning.resolved import Resolved


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


def follow(
    request: Resolved, graph: LayerGraph, progress: Callable[[int, int], None] = lambda *_: None
) -> Plan:
    """Plan a network by a request; arguments and errors as of ``plan_model``. The plan knows what it was made from."""
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
        from hypar.planning.stages.records import decided_stages  # noqa: PLC0415 (only where they are asked for)

        best = request.stages == BEST
        whole = _decided(replace(request, stages=None), graph, lambda *_: None) if best else None
        return decided_stages(request, graph, whole, progress)
    found = None if request.heterogeneous else _searched(request, graph)
    if found is None or request.machine is not None:
        from hypar.planning.climb import timed  # noqa: PLC0415 (only where a machine is named)

        return timed(request, graph, found, progress)
    return decided(request, *found, claim_of(request, *found))


def _searched(request: Resolved, graph: LayerGraph) -> tuple[Question, Answer]:
    """Return the search problem of a request for identical devices, and its answer."""
    if len(request.array) == 1:
        from hypar.planning.flat import by_digits  # noqa: PLC0415 (only for a single level, whose devices may be numbered)

        numbered = by_digits(request, graph)
        if numbered is not None:
            return numbered
    question = ask(request, graph)
    return question, load_search(request.search).run(question)
