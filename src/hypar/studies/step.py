"""A step as rows: its tasks, and its seconds, bytes, joules and memory by layer, phase, level, chunk and stage, and over time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from hypar.machine.machine import OUTWARD
from hypar.machine.setting import phase_of
from hypar.network.graph import gradients_of
from hypar.ops.nest import PHASES
from hypar.plan.plan import Plan
from hypar.planning.replay import ScoredStep, run_plan
from hypar.schedule.lanes import COMMUNICATION, PHASE, WEIGHT, Piece, level_name
from hypar.schedule.memory import layers_of, memory_of
from hypar.schedule.stages import Step, joules_of
from hypar.sharding.amounts.counted import SEAM
from hypar.sharding.tree import WHOLE_ARRAY

Rows = list[dict[str, Any]]


class StepTask(NamedTuple):
    """A task of a step that was run: a piece of its work for a layer, of a transfer between stages for one of the stage that receives it.

    The ``groups`` of a piece are the indices of the groups of devices, or of the stages, that it occupies; ``item`` is the
    microbatch, from 0, None without stages.
    """

    name: str
    piece: Piece
    layer: str
    item: int | None
    start_s: float
    critical: bool

    @property
    def end_s(self) -> float:
        """Its end."""
        return self.start_s + self.piece.seconds

    @property
    def level(self) -> int | None:
        """The level of a transfer, 0 for the outermost or ``SEAM``; None of any other task."""
        return self.piece.level if self.piece.collective else None

    @property
    def exchanges(self) -> bool:
        """Whether it exchanges gradients."""
        return self.piece.kind == COMMUNICATION and self.piece.phase in {PHASE, COMMUNICATION}


class Part(NamedTuple):
    """The part in a step of a layer, or of a level, as ``H1`` or ``stages``.

    ``num_bytes`` are those that all devices receive, of a layer without those from other stages; seconds are of computation
    and of receiving on the critical path, which sum to the step over all layers, of a layer of a stage all those that it
    takes there, without transfers between stages; ``joules`` are those of all devices, of a layer without power at rest and
    transfers between stages, None if the machine's file gives no energies.
    """

    num_bytes: float = 0.0
    computes_s: float = 0.0
    receives_s: float = 0.0
    joules: float | None = None


def task_names(
    step: Step, lanes: Sequence[str], layers: Sequence[str], *, staged: bool = False
) -> tuple[str, ...]:
    """Return the name of each task of a step in a trace, as ``conv1 gradient all_reduce H1``; with stages its microbatch, too.

    ``lanes`` and ``layers`` are their names, that of an only lane empty.
    """
    found = []
    for piece, place in zip(step.pieces, step.places, strict=True):
        group = piece.resource.removesuffix(OUTWARD)
        group = lanes[piece.groups[0]] if group == piece.resource else group
        of = " to ".join(dict.fromkeys((layers[place.first], layers[place.layer])))
        inside = not piece.collective or piece.level != SEAM
        words = (f"{group}:" * bool(group), of * inside, _what(piece), f"#{place.item + 1}" * staged)
        found.append(" ".join(filter(None, words)))
    return tuple(found)


def _what(piece: Piece) -> str:
    if not piece.collective:
        return "synchronisation" if piece.kind == COMMUNICATION else piece.kind
    if piece.level == SEAM:
        return f"{piece.phase} from other stages"
    return f"{piece.phase} {piece.collective} {level_name(piece.level)}"


class StepRows:
    """A step that was run, as rows."""

    def __init__(self, ran: ScoredStep) -> None:
        self.ran = ran

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups of devices, or of the stages; ``all`` for identical devices without stages."""
        return tuple(group.group for group in self.ran.score.groups or ()) or (WHOLE_ARRAY,)

    @cached_property
    def tasks(self) -> tuple[StepTask, ...]:
        """The tasks in the order in which they are issued."""
        step, layers, staged = self.ran.step, self.ran.plan.layers, self.ran.stages is not None
        staged = staged or self.ran.work.microbatches > 1
        names = task_names(step, [lane.name for lane in self.ran.lanes], layers, staged=staged)
        critical = {*step.timeline.critical_path}
        each = zip(names, step.pieces, step.places, step.timeline.starts, strict=True)
        return tuple(
            StepTask(name, piece, layers[place.layer], place.item if staged else None, start, at in critical)
            for at, (name, piece, place, start) in enumerate(each)
        )

    @cached_property
    def parts(self) -> dict[str | int, Part]:
        """The part of each layer by its name, in topological order, then of each level by its number, the stages first."""
        ran, names, staged = self.ran, self.ran.plan.layers, self.ran.stages is not None
        outermost = SEAM if staged else 0
        levels = range(outermost, outermost + len(ran.score.communication))
        known = {} if ran.score.energy is None else {"joules": 0.0}
        found = {place: defaultdict[str, float](float, known) for place in (*names, *levels)}
        for task in self.tasks:
            spent = "receives_s" if task.piece.kind == COMMUNICATION else "computes_s"
            for place in _places(task.layer, task.level):
                counts = task.critical or (staged and place == task.layer)
                found[place][spent] += task.piece.seconds * counts
                found[place]["num_bytes"] += task.piece.num_bytes
        for layer, level, _, joules in joules_of(ran.lanes, ran.step) if ran.score.energy else ():
            for place in _places(names[layer], level):
                found[place]["joules"] += joules
        return {place: Part(**own) for place, own in found.items()}

    @cached_property
    def phases(self) -> Rows:
        """Each phase of each layer on a device, as ``score_layers`` gives them."""
        groups, sent = self.ran.score.groups, defaultdict[tuple[int, str, str], Rows](list)
        for task in self.tasks:
            piece = task.piece
            for lane in piece.groups if piece.collective else ():
                own = {"level": piece.level, "collective": piece.collective, "time_s": piece.seconds}
                sent[lane, task.layer, piece.phase].append({**own, "bytes": piece.num_bytes})
        found = []
        for lane, devices in enumerate(self.ran.lanes):
            machine, group = devices.setting.machine, {"group": groups[lane].group} if groups else {}
            parts = devices.place.parts or (devices,)
            times = {part.place.first + at: own for part in parts for at, own in enumerate(part.times)}
            for (number, layer), phase in product(enumerate(self.ran.plan.layers), (*PHASES, WEIGHT)):
                time, moved = times.get(number), sent[lane, layer, phase]
                if phase == WEIGHT and not moved:
                    continue
                own = {} if time is None or phase == WEIGHT else phase_of(phase, time, machine)
                sums = {"communication_s": sum(each["time_s"] for each in moved), "transfers": moved}
                found.append({**group, "layer": layer, "phase": phase, **own, **sums})
        return found

    @cached_property
    def memory(self) -> tuple[dict[str, float], ...]:
        """The bytes of a device of each group, or stage, at its peak: activations, errors, and by name what is held all along."""
        return tuple(memory_of(lane, self.ran.step.buckets) for lane in self.ran.lanes)

    def memory_by_layer(self) -> Iterator[tuple[str, float, dict[str, tuple[float, float]]]]:
        """Yield each group without stages, its bytes held all along, and its most of the rest in each layer's two phases."""
        each = zip(self.groups, self.ran.lanes, self.memory, strict=True)
        for group, lane, held in each if self.ran.stages is None else ():
            always = math.fsum(own for item, own in held.items() if item not in {"activations", "errors"})
            yield group, always, dict(zip(self.ran.plan.layers, layers_of(lane), strict=True))

    @cached_property
    def stages(self) -> Rows:
        """The number of each ``stage``, from 1, what a device of it holds in bytes, and ``received`` from other stages."""
        if self.ran.stages is None:
            return []
        between = [task.piece for task in self.tasks if task.level == SEAM]
        sent = ([own.num_bytes for own in between if at in own.groups] for at in range(len(self.groups)))
        return [
            {"stage": number, **memory, "received": math.fsum(own)}
            for number, (memory, own) in enumerate(zip(self.memory, sent, strict=True), start=1)
        ]

    @cached_property
    def chunks(self) -> Rows:
        """The chunks of the plan's gradients in the order of the backward phase; none without chunks.

        A row has its number ``chunk``, from 1; its ``layers``; the ``bytes`` of all that is trained in them; ``ready_s``, when the
        last gradient is there in the first device group to have it; ``start_s`` and ``end_s`` of the exchange, in seconds
        from the begin of the step; ``critical``, whether the critical path waits for it.
        """
        chunks = [] if self.ran.plan.chunks is None else self.ran.plan.chunks.layers
        chunk_of = {layer: number for number, layers in enumerate(chunks) for layer in layers}
        owners = {tie.user: tie.owner for tie in self.ran.graph.ties if tie.user not in chunk_of}
        path = [self.tasks[index] for index in self.ran.timeline.critical_path]
        behind = [*takewhile(lambda task: task.piece.kind not in PHASES, reversed(path))]
        # The first exchange behind the last computation of the backward phase is waited for.
        awaited = next((task.layer for task in reversed(behind) if task.exchanges), None)
        sizes, rows = Counter[int | None](), []
        for each in gradients_of(self.ran.graph):
            sizes[chunk_of.get(owners.get(each.layer, each.layer))] += each.num_bytes
        for number, layers in enumerate(chunks):
            own = [task for task in self.tasks if chunk_of.get(task.layer) == number]
            last = {task.piece.groups: task.end_s for task in own if task.piece.kind == PHASE}
            sent = [task for task in own if task.exchanges]
            rows.append({
                "chunk": number + 1, "layers": list(layers), "bytes": sizes[number], "ready_s": min(last.values()),
                "start_s": min(task.start_s for task in sent), "end_s": max(task.end_s for task in sent),
                "critical": awaited in layers,
            })  # fmt: skip
        return rows


def _places(layer: str, level: int | None) -> tuple[str | int, ...]:
    """Return where bytes and joules belong: those of a transfer between stages to no layer."""
    return (layer,) if level is None else (level,) if level == SEAM else (layer, level)


def score_layers(plan: Plan | str | Path, **asked: Any) -> Rows:
    """Score a plan layer by layer; arguments and errors as in ``score_plan``.

    Returns:
        For each phase of each layer on a device: ``time_s`` of computation, ``macs``, ``accesses`` to each memory in words,
        the ``mapping`` that a compute model searches, ``energy`` in joules by component, the ``transfers``, and their seconds
        ``communication_s``. A transfer has its ``level`` from 0, ``collective``, ``time_s``, and the ``bytes`` that all devices
        receive. Joins and pools have transfers alone; on a heterogeneous machine each row names its ``group``.

    Examples:
        >>> import hypar
        >>> rows = score_layers(hypar.plan_model("lenet-c", levels=1, hardware="hmc"))
        >>> sum(each["bytes"] for row in rows if row["phase"] == "gradient" for each in row["transfers"])
        204000.0
    """
    return StepRows(run_plan(plan, **asked)).phases
