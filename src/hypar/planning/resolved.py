"""What a request comes to: its values checked, and every default filled in; planning decides by it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from hypar.costs.base import load_cost
from hypar.errors import HardwareError, OptionError, shown
from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanGraph
from hypar.network.training import Training, formats_of
from hypar.plan.plan import Plan
from hypar.plan.records import CHUNKS, FLUSHES, INTERLEAVED, Chunks, Manner, Operators, Score, of_score
from hypar.plan.request import BEST, Request, checked
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.sharding.conventions import DIRECT, FUSED, MOVED, PAPER
from hypar.sharding.placement import Options, primes
from hypar.sharding.space import parse_space
from hypar.sharding.tree import MOST_DEVICES, WHOLE_ARRAY
from hypar.solve.limits import UNLIMITED, Limits

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile

    Ways = tuple[int, ...]

USUAL, BASELINE = "hypar", "dp"
"""The strategy where none is named, and the one that others are compared with."""

AS_ASKED = ("graph", "strategy", "space", "search", "convention")
"""What a plan records as it was asked for."""

MOST_LEVELS = MOST_DEVICES.bit_length() - 1

MOST_TASKS = 2**20
"""Tasks of one timeline at most, which take some ten seconds."""

TASKS = 10
"""Tasks of a stage, or of a layer, for a microbatch, by which microbatches are limited."""

FIXED = ("dp", "owt")
"""Strategies that decide without a search: what practitioners do by default."""

TRAINED = ("zero", "recompute", "microbatches", "stages", "parts")
"""How a step trains, as far as a search may choose it."""

BASELINES = (*FIXED, "hypar", "accpar")
"""The strategies that compete with a search for least time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """All inputs of a plan except the network; a plan records them. An attribute without a word here is the option of ``Request``.

    ``parameters`` of the cost are those to set. ``graph`` is None for weighted layers and joins only. ``arrays`` have the
    ways of each level, outermost first, inside each group of identical devices by its name: ``all`` where there is one
    group. ``machine`` is None if no hardware is named; so many levels and uneven splits are ``outside`` the stages.
    ``baselines`` are strategies that the engine times beside the search's plan, of which the fastest is taken; they may
    have choices ``beyond_space`` if none was requested. The cost counts bytes by ``convention``, engine and score as
    ``counted`` says; ``limits`` are those of a joint search. Dims may be cut ``beyond`` their elements; None for what the
    strategy says. Of how a step trains the search chooses what is ``free``; choices that were ``proposed`` for
    all layers are tried.
    """

    strategy: str
    space: str
    cost: str
    parameters: Mapping[str, Any]
    search: str
    solver: str | None
    arrays: Mapping[str, tuple[int, ...]]
    pins: tuple[str, ...] = ()
    graph: Operators | None = None
    machine: Machine | None = None
    optimizer: str = "sgd"
    profile: Profile | None = None
    refine: bool = False
    shares: str = "equal"
    stages: int | str | None = None
    schedule: str = "1f1b"
    parts: int | None = None
    microbatches: int | None = None
    precision: str | None = None
    zero: int = 0
    recompute: str = "none"
    balance: str = "time"
    starts: tuple[str, ...] = ()
    outside: int = 0
    chunks: Chunks | None = None
    baselines: tuple[str, ...] = ()
    beyond_space: bool = False
    convention: str = PAPER
    counted: str = PAPER
    limits: Limits = UNLIMITED
    beyond: bool | None = None
    free: frozenset[str] = frozenset()
    proposed: tuple[Options, ...] = ()

    @property
    def beyond_elements(self) -> bool:
        """Whether dims may be in more shards than they have elements, as a paper's strategy counts in its own space, and its baselines."""
        if self.beyond is not None or self.strategy not in plugin_names("strategies"):
            return bool(self.beyond)
        own = load_strategy(self.strategy)
        return own.beyond and self.space == space_text(own.space)

    @property
    def heterogeneous(self) -> Machine | None:
        """The machine if it has several groups; None on identical devices."""
        return self.machine if self.machine is not None and self.machine.groups else None

    @property
    def identical(self) -> Machine | None:
        """The machine if all its devices are identical; None on several groups, and if no hardware is named."""
        return None if self.machine is None or self.machine.groups else self.machine

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines of all groups of identical devices; empty if no hardware is named."""
        return () if self.machine is None else tuple(machine for _, machine, _ in self.machine.leaves())

    @property
    def array(self) -> tuple[int, ...]:
        """The ways of each level of identical devices; empty on several groups."""
        return self.arrays.get(WHOLE_ARRAY, ())

    @property
    def levels(self) -> int:
        """The largest number of uneven splits and levels above a device."""
        if self.machine is None:
            return len(self.array)
        return max(depth + len(self.arrays.get(name, ())) for name, _, depth in self.machine.leaves())

    def over(self, array: Sequence[int]) -> Resolved:
        """Return the request with the ways of each level of identical devices replaced."""
        return replace(self, arrays={WHOLE_ARRAY: tuple(array)})

    def as_planned(self, plan: Plan) -> Resolved:
        """Return the request with the levels that a plan has, inside its stages if it has any."""
        return replace(self, arrays=_ways(plan.arrays, plan.array))

    def on(self, machine: Machine, name: str = WHOLE_ARRAY) -> Resolved:
        """Return the request for the devices of a node of the machine alone, of a group of some name."""
        names, given = [own for own, _, _ in machine.leaves()], self.arrays
        arrays = {own: given[own] for own in names} if machine.groups else {WHOLE_ARRAY: given[name]}
        return replace(self, machine=machine, arrays=arrays)

    def network(self, graph: LayerGraph) -> LayerGraph:
        """Return the network that it plans: with tensors at rest, if cost and score count what a correct execution moves."""
        return graph.at_rest if {self.convention, self.counted} <= {MOVED, FUSED} else graph.without_rests

    def microbatch(self, graph: LayerGraph) -> PlanGraph | None:
        """Return the layers of a microbatch of a network; None without several of them, or with stages, whose spans know theirs."""
        if self.training.microbatches == 1:
            return None
        return graph.with_batch(graph.batch // self.training.microbatches).nodes(self.graph)

    @property
    def training(self) -> Training:
        """How a step trains; the microbatches of stages are theirs."""
        microbatches = (self.microbatches or 1) if self.stages is None else 1
        return Training(microbatches, self.precision, self.zero, self.recompute)

    def element_bytes(self, graph: LayerGraph) -> int:
        """Return the bytes of an element of F and E."""
        return formats_of(self.precision, graph.element_bytes).activation

    @property
    def uneven(self) -> bool:
        """Whether there are uneven splits: on a heterogeneous machine, but where each stage is on identical devices."""
        staged = self.stages not in {None, BEST} and not self.outside
        machine = self.heterogeneous
        return machine is not None and not (staged and all(not own.machine.groups for own in machine.groups))

    @classmethod
    def of(cls, plan: Plan, machine: Machine | None = None, profile: Profile | None = None) -> Resolved:
        """Rebuild the request of a stored plan, on the machine of its score, with the measured times of its cost.

        Raises ``InputError`` if its rule for shares is unknown.
        """
        stages, arrays, array = plan.stages, plan.arrays, plan.array
        more: dict[str, Any] = {"solver": plan.solver}
        if stages is not None:
            arrays, array = stages.arrays or arrays, stages.array or array
            asked = stages.asked_microbatches if stages.asked == BEST else stages.microbatches
            more = {name: getattr(stages, name) for name in ("solver", "schedule", "parts")}
            more |= {"stages": stages.asked, "microbatches": asked, "balance": stages.balance or "time"}
            more |= {"outside": stages.outside or 0}
            more |= {"starts": tuple(layers[0] for _, layers in stages.spans)} if stages.starts else {}
        more |= plan.training.model_dump(exclude_defaults=True)
        return cls(
            **{name: getattr(plan, name) for name in AS_ASKED},
            **more,
            cost=plan.cost.name,
            parameters=plan.cost.parameters,
            arrays=_ways(arrays, array),
            pins=tuple(plan.pins),
            machine=machine,
            shares="equal" if plan.shares is None else checked("shares", plan.shares),
            profile=profile,
            optimizer="sgd" if plan.score is None else plan.score.optimizer,
            refine=plan.refined is not None,
            chunks=None if plan.chunks is None else plan.chunks.asked,
            # The recorded baselines are the ones that competed.
            baselines=() if plan.baselines is None else plan.baselines.names,
            beyond_space=plan.baselines is not None,
            counted=plan.convention if plan.score is None else plan.score.convention,
            # A search that no limit kept from anything takes the same way without one.
            limits=UNLIMITED if plan.limits is None else Limits(plan.limits.seconds, plan.limits.bytes),
        )


def _ways(arrays: Mapping[str, Sequence[int]] | None, array: Sequence[int]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(own) for name, own in (arrays or {WHOLE_ARRAY: array}).items()}


def drafted(request: Request) -> Resolved:
    """Return what a request comes to, with its machine read, before its array is checked: as if it were of identical devices.

    Raises ``OptionError`` for stages that are stated in two ways or are none, ``UnknownNameError`` for no such strategy.
    """
    array, stages, outside = _nested(request)
    given = request.given()
    starts = request.starts.split(",") if isinstance(request.starts, str) else request.starts or ()
    if request.schedule == INTERLEAVED:
        given.setdefault("parts", 2)
    count = _number_of_stages(request.microbatches, stages, len(starts), given.get("parts"))
    levels = min(request.levels, MOST_LEVELS) if isinstance(request.levels, int) else 4
    ways = (2,) * levels if array is None else array
    staged = count not in ((None, 1) if ways else (None,))
    strategy = USUAL if request.strategy is None else request.strategy
    parameters: dict[str, Any] = {name: given[name] for name in ("inter_weight", "mode") if name in given}
    fixed = {
        "arrays": {WHOLE_ARRAY: ways},
        "machine": request.hardware,
        "parameters": parameters,
        "stages": count if staged else None,
        "starts": tuple(str(name).strip() for name in starts),
        "outside": outside if staged else 0,
    }
    same = {name: value for name, value in given.items() if name in Resolved.__dataclass_fields__}
    plain = Resolved(**{**of_strategy(strategy), **same, **fixed})
    own, named = of_strategy(strategy, uneven=plain.uneven), load_strategy(strategy)
    if own["cost"] == "time" and request.hardware is None:
        # Without a machine there is no time.
        own["cost"] = load_strategy(BASELINE).cost
    cost = own["cost"] if request.cost is None else request.cost
    # Without a strategy, a cost that is asked for is no paper's.
    usual = own["convention"] if request.strategy is not None or cost == own["cost"] else MOVED
    counted = (request.convention or usual, request.convention or of_score(usual))
    convention, of_step = counted if follows(cost) else (PAPER, PAPER)
    timed = request.hardware is not None and (cost == "time" or request.refine)
    # Ends of stages, replicas of all, or no levels inside leave how a step trains as it is asked for.
    whole = staged and bool(count == BEST or starts or outside or request.balance or not ways)
    open_ = named.zero is None and timed and cost == "time" and not (whole or plain.heterogeneous)
    held = {*given, *["stages"] * staged, *["parts"] * bool(request.schedule)}
    return replace(
        plain,
        cost=cost,
        shares=request.shares or (own["shares"] if load_cost(cost, parameters).slowest else "equal"),
        graph="operators" if (request.graph or named.graph) == "operators" else None,
        convention=convention,
        counted=of_step,
        baselines=BASELINES if timed else (),
        zero=((named.zero or 0) if request.hardware else 0) if request.zero is None else request.zero,
        free=frozenset({*TRAINED} - held if open_ else ()),
        beyond_space=request.strategy is None and request.space is None and cost == "time",
    )


def _nested(request: Request) -> tuple[tuple[int, ...] | None, int | str | None, int]:
    """Return the ways of an array, its number of stages or the one beside it, and how many of its levels are outside them."""
    array = None if request.array is None else tuple(request.array)
    words = [ways for ways in array or () if isinstance(ways, str)]
    if array is None or not words:
        return cast("Ways | None", array), request.stages, 0
    if len(words) > 1 or not re.fullmatch(r"s\d+", words[0]):
        allowed = "ways of levels, and one number of stages among them, as 2, s4, 2"
        raise OptionError("array", f"found {shown(', '.join(words))}", allowed)
    if request.stages is not None:
        found = f"found {shown(request.stages)} and an array with {words[0]}"
        raise OptionError("stages", found, "one of the two")
    at = array.index(words[0])
    return cast("Ways", array[:at] + array[at + 1 :]), int(words[0][1:]), at


def _number_of_stages(microbatches: Any, stages: Any, starts: int, parts: Any) -> int | str | None:
    numbers = (
        ("stages", stages, 1, ", or best"),
        ("microbatches", microbatches, 1, ""),
        ("parts", parts, 2, ""),
    )
    for name, own, least, more in numbers:
        if own not in (None, BEST):
            require_whole(name, own, least, MOST_DEVICES, more)
    if starts % (parts or 1):
        raise OptionError("starts", f"found {starts}", f"a multiple of the {parts} parts of each stage")
    count = starts // (parts or 1)
    if starts and stages not in (None, BEST, count):
        raise OptionError("stages", f"found {shown(stages)} and starts of {count}", "one of the two")
    return count if starts and stages != BEST else stages


def follows(cost: str) -> bool:
    """Return whether a cost can count by any convention."""
    return load_cost(cost, {}).convention != DIRECT


def of_strategy(name: str, *, uneven: bool = False) -> dict[str, Any]:
    """Return the options of ``Resolved`` that a strategy stands for, with uneven splits or without."""
    named = load_strategy(name)
    own = {each: getattr(named, each) for each in ("space", "cost", "search", "convention")}
    own["cost"] = named.heterogeneous_cost if uneven and named.heterogeneous_cost else named.cost
    own["shares"] = named.shares if uneven else "equal"
    return {"strategy": name, "parameters": {}, "solver": None, **own}


def baseline_request(request: Resolved, name: str) -> Resolved:
    """Return the request of a known strategy with the graph, pins, array, chunks and machine of another request."""
    alone: dict[str, Any] = {"profile": None, "refine": False, "stages": None, "baselines": ()}
    alone["microbatches"] = request.training.microbatches
    alone["beyond"], uneven = request.beyond_elements, request.heterogeneous is not None
    return replace(request, **of_strategy(name, uneven=uneven), **alone)


def of_baseline(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for the plan of the baseline beside plans with some arguments.

    The baseline keeps its own space and equal shares, by which it is the baseline, and measured times and a mode count
    where its cost has them; it has everything else alike.
    """
    cost = load_cost(given.get("cost") or load_strategy(BASELINE).cost, {})
    left_out = ["space", "shares", *(name for name in ("profile", "mode") if not hasattr(cost, name))]
    return {name: value for name, value in given.items() if name not in left_out}


def cost_convention(plan: Plan) -> str:
    """Return the convention of a plan's cost, as people read it."""
    return _read_as(plan, plan.convention)


def score_convention(plan: Plan, score: Score | None = None) -> str:
    """Return the convention of a score, as people read it: of the plan's own if none is given, or of what it would have."""
    score = plan.score if score is None else score
    return of_score(plan.convention) if score is None else _read_as(plan, score.convention)


def _read_as(plan: Plan, convention: str) -> str:
    return load_cost(plan.cost.name, plan.cost.parameters).convention if convention == PAPER else convention


def require_whole(name: str, found: Any, least: int, most: int, more: str = "") -> None:
    """Raise ``OptionError`` for what is no whole number in a range; ``more`` is what else the option allows."""
    if type(found) is not int or not least <= found <= most:
        raise OptionError(name, f"found {shown(found)}", f"a whole number from {least} to {most:,}{more}")


def checked_array(levels: int | None, array: Sequence[int] | None, *, stages: bool = False) -> Ways:
    """Return the ways of each level; with stages there may be no levels inside."""
    if stages and (levels == 0 if array is None else not array):
        return ()
    if array is None:
        levels = 4 if levels is None else levels
        require_whole("levels", levels, int(not stages), MOST_LEVELS)
        return (2,) * levels
    whole = all(isinstance(ways, int) and ways > 1 for ways in array)
    if not array or not whole or math.prod(array) > MOST_DEVICES:
        found = f"found {'x'.join(str(ways) for ways in array) or 'none':.60}"
        raise OptionError("array", found, f"ways of 2 or more, at most {MOST_DEVICES:,} devices")
    return tuple(array)


def checked_arrays(request: Request, own: Resolved) -> dict[str, Ways]:
    """Return the ways of each level inside each group of identical devices, or inside a stage on it.

    On a heterogeneous machine uneven splits and the levels below are given by their number or their ways; neither stands for all
    devices of every group. Stages are inside so many nodes, ``outside``, or equally many on each outermost group.
    Raises ``OptionError`` for what is neither, and ``HardwareError`` for what does not fit the device groups.
    """
    machine, levels, array = own.heterogeneous, request.levels, None if request.array is None else own.array
    stages, outside = own.stages if isinstance(own.stages, int) else None, own.outside
    if machine is None:
        return {WHOLE_ARRAY: checked_array(levels, array, stages=stages is not None)}
    given, apart = (levels, array) != (None, None), stages is not None and not outside
    count = stages_of_each(machine, stages) if stages and apart else stages or 1
    whole = checked_array(levels, array, stages=stages is not None) if given else ()
    found: dict[str, Ways] = {}
    option = "levels" if array is None else "array"
    for name, leaf, depth in machine.leaves():
        devices, least = leaf.num_devices, max(depth - apart, outside)
        if not given and devices % count:
            problem = f"found {count} in group {name!r} of {devices:,} devices"
            raise HardwareError("stages", problem, "equally many devices in each, or levels inside")
        found[name] = whole[depth - apart :] if given else tuple(primes(devices // count))
        each = math.prod(found[name])
        short, large = given and len(whole) < least, count * each > devices
        if stages is None and (short or large):
            problem = f"found {len(whole)} levels, {depth} of them uneven splits above {name!r}"
            raise HardwareError(
                option, problem, f"at least {depth}, and at most its {devices} devices below them"
            )
        if short:
            problem = f"found {len(whole)} levels and splits of a stage of {name!r}"
            raise HardwareError("array", problem, f"at least {least}")
        if large:
            place = f"each of {count} stages of" if count > 1 else "the stage of"
            problem = f"found {each:,} device{'s' * (each > 1)} in {place} {name!r}"
            raise HardwareError(option, problem, f"at most its {devices:,} device{'s' * (devices > 1)}")
    for inside in [group.machine for group in machine.groups] if apart else [machine]:
        if array is not None and whole and inside.groups:
            require_ways(inside, whole)
    return found


def stages_of_each(machine: Machine, stages: int) -> int:
    """Return the number of stages of each device group; raises ``OptionError`` if it is no whole number."""
    groups = len(machine.groups)
    if stages % groups:
        found = f"found {stages} where {machine.name!r} has {groups} groups of identical devices"
        raise OptionError("stages", found, f"a multiple of {groups}")
    return stages // groups


def require_ways(heterogeneous: Machine, array: Ways) -> None:
    """Check that the ways of each uneven split are the number of its device groups."""
    for _, split, depth in heterogeneous.nodes():
        if split.groups and array[depth] != len(split.groups):
            found = f"found {array[depth]} ways where {split.name!r} has {len(split.groups)} groups"
            raise HardwareError("array", found, str(len(split.groups)))


def space_text(text: str) -> str:
    """Return the text of a space, with the name of a strategy replaced by that strategy's space."""
    named = plugin_names("strategies")
    words = (load_strategy(word).space if word in named else word for word in text.split())
    return parse_space(" ".join(words), None).text


def checked_chunks(chunks: str | int | None, graph: LayerGraph) -> Chunks | None:
    """Check the requested chunks, by name or by size, possibly as text from the command line; None stands for no request.

    Raises ``OptionError`` if the value is not allowed for the network.
    """
    if chunks is None or chunks in CHUNKS:
        return cast("Manner | None", chunks)
    most = sum(layer.weighted for layer in graph.contracted.layers)
    digits = isinstance(chunks, str) and chunks.isdecimal() and len(chunks) < 9
    size = int(chunks) if digits or type(chunks) is int else 0
    if not 1 <= size <= most:
        raise OptionError("chunks", f"found {shown(chunks)}", f"{', '.join(CHUNKS)}, or 1 to {most}")
    return size


def checked_microbatches(asked: int | None, schedule: str, batch: int, stages: int, layers: int = 1) -> int:
    """Return the number of microbatches; by default the largest divisor of the mini-batch up to the number of stages.

    Raises ``OptionError`` if the number does not divide the mini-batch, or is too large, or not allowed by the schedule.
    """
    if asked is None and schedule != INTERLEAVED:
        most = stages if FLUSHES[schedule] else 1
        return max(count for count in range(1, most + 1) if batch % count == 0)
    asked = stages if asked is None else asked
    found, allowed = f"found {shown(asked)}", f"a divisor of the batch {batch:,}"
    if not FLUSHES[schedule]:
        batch, allowed = 1, f"1, as {schedule!r} takes whole mini-batches"
    elif schedule == INTERLEAVED:
        found = f"found {asked:,} of a batch of {batch:,}"
        allowed = f"a multiple of the {stages} stages that divides the batch, in schedule {INTERLEAVED!r}"
    turns = stages if schedule == INTERLEAVED else 1
    if type(asked) is not int or asked < 1 or batch % asked or asked % turns:
        raise OptionError("microbatches", found, allowed)
    most = MOST_TASKS // (TASKS * max(stages, layers))
    if asked > most and FLUSHES[schedule]:
        raise OptionError(
            "microbatches", f"found {asked:,}", f"at most {most:,}{f' in {stages} stages' * (stages > 1)}"
        )
    return asked
