"""The chunks and the stages of a step that was run, as rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hypar.network.gradients import gradients_of
from hypar.network.training import PHASES
from hypar.schedule.memory import memory_of
from hypar.schedule.moves import BETWEEN_STAGES, PHASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.planning.replay import ScoredStep

HELD = ("weights", "gradients", "activations", "errors", "buffers")
"""What a device of a stage holds."""


def chunk_rows(ran: ScoredStep) -> list[dict[str, Any]]:
    """Return the chunks of a plan's gradients in the order of the backward phase; none without chunks.

    Args:
        ran: the step.

    Returns:
        A row for each chunk: its number ``chunk``, from 1; ``layers``, names; ``parameters``, names of all that is trained
        in it, in the order in which the gradients are ready; ``bytes`` of these; ``ready_s``, when the last gradient is
        there in the first device group to have it; ``start_s`` and ``end_s`` of the exchange, in seconds from the begin
        of the step; ``critical``, whether the critical path waits for it.
    """
    chunks = [] if ran.plan.chunks is None else ran.plan.chunks.layers
    held = {each.layer: each for each in gradients_of(ran.graph)}
    users, tasks = _users(ran, chunks), _tasks(ran, chunks)
    starts, ends, lanes = ran.timeline.starts, ran.timeline.ends, ran.step.lanes
    critical = _critical(ran, tasks)
    rows = []
    for number, (layers, (computed, sent)) in enumerate(zip(chunks, tasks, strict=True)):
        last = {lanes[task]: ends[task] for task in computed}
        own = [held[name] for layer in layers for name in (layer, *users.get(layer, ()))]
        rows.append(
            {
                "chunk": number + 1,
                "layers": list(layers),
                "parameters": [name for each in own for name in each.parameters],
                "bytes": sum(each.num_bytes for each in own),
                "ready_s": min(last.values()),
                "start_s": min(starts[task] for task in sent),
                "end_s": max(ends[task] for task in sent),
                "critical": number == critical,
            }
        )
    return rows


def _users(ran: ScoredStep, chunks: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Return the layers in no chunk that use the weight of another one, with whose gradients they send theirs."""
    alone = {layer for chunk in chunks for layer in chunk}
    found: dict[str, list[str]] = {}
    for tie in ran.graph.ties:
        if tie.user not in alone:
            found.setdefault(tie.owner, []).append(tie.user)
    return found


def _tasks(ran: ScoredStep, chunks: Sequence[Sequence[str]]) -> list[tuple[list[int], list[int]]]:
    """Return for each chunk the tasks that compute its gradients, and those that exchange them."""
    step, names = ran.step, ran.plan.layers
    chunk_of = {layer: number for number, layers in enumerate(chunks) for layer in layers}
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in chunks]
    for index, (task, layer, move) in enumerate(zip(step.tasks, step.layers, step.moves, strict=True)):
        sent = task.kind == "communication" and (move is None or move.phase == PHASE)
        if names[layer] in chunk_of and (sent or task.kind == PHASE):
            found[chunk_of[names[layer]]][sent].append(index)
    return found


def _critical(ran: ScoredStep, tasks: Sequence[tuple[list[int], list[int]]]) -> int | None:
    """Return the first chunk that is exchanged behind the last computation of the backward phase on the critical path."""
    chunk_of = {task: number for number, (_, sent) in enumerate(tasks) for task in sent}
    found = None
    for task in ran.timeline.critical_path:
        if ran.timeline.tasks[task].kind in PHASES:
            found = None
        elif found is None:
            found = chunk_of.get(task)
    return found


def stage_rows(ran: ScoredStep) -> list[dict[str, Any]]:
    """Return what each stage of a plan holds, receives and waits for, in order; none without stages.

    Args:
        ran: the step.

    Returns:
        A row for each stage: its number ``stage``, from 1; its ``layers``, as ``conv1 to conv5``; bytes on a device of
        ``weights``, ``gradients``, ``activations``, ``errors`` and ``buffers``, and ``memory``, all of them; ``in_flight``,
        microbatches at once; ``received``, bytes from other stages in a step; ``staleness``, in updates; ``busy_s`` and
        ``idle_s``, seconds of a step.
    """
    stages, groups = ran.stages, ran.score.groups
    if stages is None or groups is None:
        return []
    rows = []
    for number, (stage, group) in enumerate(zip(stages.stages, groups, strict=True)):
        held = memory_of(ran.lanes[number], ran.step, number)
        rows.append(
            {
                "stage": number + 1,
                "layers": stage.ends,
                **{item: held[item] for item in HELD},
                "memory": group.memory_bytes,
                "in_flight": stage.in_flight,
                "received": _received(ran, number),
                "staleness": stage.staleness,
                "busy_s": stage.busy_s,
                "idle_s": group.idle_s,
            }
        )
    return rows


def _received(ran: ScoredStep, number: int) -> float:
    """Return the bytes that a stage receives from others."""
    return math.fsum(
        move.total_bytes
        for move, lanes in zip(ran.step.moves, ran.step.lanes, strict=True)
        if move is not None and move.level == BETWEEN_STAGES and number in lanes
    )
