"""What a search has decided for a group of identical devices, its records in a plan, and its claim: over what it is optimal."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from hypar.costs.base import parameters_of
from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanGraph
from hypar.network.training import AS_USUAL
from hypar.ops.dims import in_order
from hypar.plan.plan import SCHEMA, Plan
from hypar.plan.records import CostRecord, LimitsRecord, ModelRecord, ProfileRecord, TrainingRecord
from hypar.planning.pins import Pin
from hypar.planning.question import Answer, Question, cost_of, load_search
from hypar.planning.resolved import AS_ASKED, Resolved
from hypar.planning.searches.named import numberable
from hypar.schedule.lanes import Ends, Lane, Lanes
from hypar.sharding.amounts.counted import State
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import Level, Options
from hypar.sharding.tree import WHOLE_ARRAY, Split
from hypar.units import exact_number, format_bytes

if TYPE_CHECKING:
    from hypar.schedule.stages import StepWork


class Node(ABC):
    """What is decided of some devices: ``Leaf`` of identical ones, ``Branching`` of an uneven split, or ``Staging``."""

    @abstractmethod
    def taking(self, chosen: Iterator[Options]) -> Self:
        """Return the node with other choices, one for each layer at each node in turn, and its costs unchanged."""

    @property
    @abstractmethod
    def work(self) -> StepWork:
        """Its work in a step."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupNode(Node):
    """A node of device groups without stages; with several microbatches in a mini-batch it has the layers of one beside its own."""

    microbatch: PlanGraph | None = None

    @abstractmethod
    def lanes(self, above: Ends = (), entered: State | None = None, first: int = 0) -> Lanes:
        """Return its lanes, numbered from the first one on, and the transfers between them; above are splits, with shares and a state."""

    @abstractmethod
    def of(self, graph: PlanGraph) -> Self:
        """Return the same choices for other layers."""

    @property
    def work(self) -> StepWork:
        """Their work in a step."""
        from hypar.schedule.stages import StepWork  # noqa: PLC0415 (only where a step is run)

        own = self if self.microbatch is None else self.of(self.microbatch)
        return StepWork.of(*own.lanes())


@dataclass(frozen=True, eq=False, kw_only=True)
class Leaf(GroupNode):
    """A group of identical devices.

    Its ``lane`` has the layers with the sizes that the splits above leave, their choices, and their setting; ``answer`` is
    the result of the search over the levels inside it, and ``question`` the search problem, None without levels, or without
    costs.
    """

    lane: Lane
    answer: Answer = field(default_factory=Answer)
    question: Question | None = None

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.lane.name or WHOLE_ARRAY

    @property
    def graph(self) -> PlanGraph:
        """The layers."""
        return self.lane.graph

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels inside the group."""
        return () if self.question is None else self.question.levels

    @property
    def cost(self) -> float:
        """The cost of all its levels."""
        return self.answer.cost

    def leaves(self) -> Iterator[Leaf]:
        """Yield the group itself."""
        yield self

    def lanes(self, above: Ends = (), entered: State | None = None, first: int = 0) -> Lanes:
        """Return the group alone; nothing comes to it from others."""
        return [self.lane._replace(ends=above, entered=entered, number=first) if above else self.lane], []

    def reached(self, above: Ends) -> Iterator[Lane]:
        """Yield its own lane, with its shares at the uneven splits above."""
        yield self.lane._replace(ends=above)

    def of(self, graph: PlanGraph) -> Leaf:
        """Return the same choices for other layers."""
        return replace(self, lane=self.lane._replace(graph=graph))

    def taking(self, chosen: Iterator[Options]) -> Leaf:
        """Return the group with other choices, one for each layer in turn."""
        each = [next(chosen) for _ in self.graph.layers] if self.levels else self.lane.choices
        lane, answer = self.lane._replace(choices=(*each,)), replace(self.answer, choices=(*each,))
        return replace(self, lane=lane, answer=answer)


def plan_of(
    request: Resolved,
    graph: LayerGraph,
    splits: Sequence[Split],
    cost: float,
    *,
    pins: Sequence[Pin],
    bounds: Sequence[float] = (),
    **found: Any,
) -> Plan:
    """Record what was decided for a network as a plan, with the arrays of a request and what else was ``found``.

    Its entries have their types as they are, so pydantic need not judge them, for which it would first build validators.
    """
    own, usual = cost_of(request), AS_USUAL._asdict()
    trained = {name: value for name, value in request.training._asdict().items() if value != usual[name]}
    dims = in_order(graph.nodes(request.graph).named_dims) or None
    return Plan.model_construct(
        **{name: getattr(request, name) for name in AS_ASKED},
        **found,
        schema_=SCHEMA,
        model=ModelRecord.model_construct(name=graph.name, digest=graph.digest, batch=graph.batch, dims=dims),
        array=list(request.array),
        arrays={name: list(own) for name, own in request.arrays.items()} if request.heterogeneous else None,
        shares=request.shares if request.uneven else None,
        pins=[str(pin) for pin in pins],
        profile=_profile_of(request),
        training=TrainingRecord.model_construct({*trained}, **trained),
        bounds=[exact_number(max(0.0, bound)) for bound in bounds] or None,
        cost=CostRecord.model_construct(
            name=request.cost, value=exact_number(cost), unit=own.unit, parameters=parameters_of(own)
        ),
        splits=[*splits],
    )


def _profile_of(request: Resolved) -> ProfileRecord | None:
    if request.profile is not None:
        return ProfileRecord(name=request.profile.name, digest=request.profile.digest)
    times = None if request.machine is None else request.machine.measured
    return ProfileRecord(name=times.source, digest=f"sha256:{times.digest}") if times else None


def limits_of(answer: Answer) -> LimitsRecord | None:
    """Return the record of the limits that kept a search from a proof."""
    if answer.limits is None:
        return None
    seconds, size = map(exact_number, (answer.limits.seconds, answer.limits.bytes))
    return LimitsRecord(seconds=seconds, bytes=size, cut=answer.cut)


def claim_of(request: Resolved, question: Question, answer: Answer) -> str:
    """Return the claim of the answer to the search problem of a request."""
    over = f"over ({request.space}){pins_text(request)}"
    if question.leaves_no_choice:
        return f"fixed: the only plan {over}"
    claim = load_search(request.search).claim
    if answer.step is not None:
        claim = f"{_step_claim(*answer.step)} {request.search} search{_limited(answer)}"
    elif answer.bounds and not answer.exact:
        claim = f"not proven optimal, but {_gap_of(answer)}; {request.search} search{_limited(answer)}"
    elif not answer.exact:
        claim = f"not optimal: solver {answer.solver!r} is not exact; {request.search} search"
    kind = _kind_of(question) + ", numbered through" * (numberable(request) and not question.numbered)
    claim = f"{claim} {over}, {kind}, for least {objective(request, summed=answer.step is None)}"
    return claim + _smallest(answer.smallest)


def _step_claim(found_s: float, bound_s: float, path: str) -> str:
    if bound_s >= found_s:
        return "optimal by the engine,"
    lower = gap_text(1 - bound_s / found_s)
    return f"not proven the fastest, but the least time is {lower} lower, that of {path};"


def _smallest(held: Mapping[str, float] | None) -> str:
    """Return what a claim says where no plan fits: what the smallest one holds, and most of."""
    if not held:
        return ""
    most = max(held, key=lambda item: held[item])
    whole, item = format_bytes(math.fsum(held.values())), format_bytes(held[most])
    return f"; none that was found fits: the smallest holds {whole}, {item} of it {most}"


def pins_text(request: Resolved) -> str:
    """Return the number of pins as a claim names it; empty if there are none."""
    return f" and {len(request.pins)} pin{'s' * (len(request.pins) > 1)}" if request.pins else ""


def objective(request: Resolved, *, summed: bool = True) -> str:
    """Return the name of the minimised cost, with the convention if it is not ``paper``.

    The cost ``time``, ``summed``, ignores a machine's overlap, so this is added.
    """
    overlap = summed and request.cost == "time" and any(machine.overlap for machine in request.machines)
    counted = "" if request.convention == PAPER else f", counted by {request.convention}"
    return f"{request.cost}{', nothing overlapped' * overlap}{counted}"


def _gap_of(answer: Answer) -> str:
    """Return the largest gap between the cost graphs' solutions and their lower bounds."""
    found = [answer.cost] if len(answer.bounds) == 1 else [*map(math.fsum, answer.costs)]
    gaps = [1 - bound / cost if cost else 0.0 for bound, cost in zip(answer.bounds, found, strict=True)]
    of = "each level's optimum" if len(gaps) > 1 else "the optimum"
    return f"{of} is {gap_text(max(0.0, *gaps))} lower"


def gap_text(gap: float) -> str:
    """Return how far a bound is from what was found, as a claim says it."""
    return "less than 0.01%" if 0 < gap < 5e-5 else f"at most {gap:.2%}"


def _limited(answer: Answer) -> str:
    """Return the limits that kept a search from a proof, and how it was cut short."""
    if answer.limits is None:
        return ""
    if answer.cut == "interrupt":
        return " cut short by an interrupt,"
    seconds, size = f"{answer.limits.seconds:g} s", format_bytes(answer.limits.bytes)
    return f" cut short after {seconds}," if answer.cut is not None else f" within {seconds} and {size},"


def _kind_of(question: Question) -> str:
    if question.numbered:
        return "grids of dims, numbered freely"
    ways = [level.ways for level in question.levels]
    every = {(id(own), each): own for at in question.options for own, each in zip(at, ways, strict=True)}
    several = any(len(choice.degrees) > 1 for options in every.values() for choice in options)
    idle = any(choice.devices(each) < each for (_, each), options in every.items() for choice in options)
    return ("grids of dims" if several else "one dim a level") + (", devices may be idle" if idle else "")
