"""The blocks of a step's timeline: rows of layers or stages, with neighbours of one kind merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.reports.page.rows import MOST_ROWS, Row, block_of, parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.studies.report.gather import Gathered, StepUse
    from hypar.studies.report.tasks import StepTask

KINDS = ("forward", "backward", "gradient", "update", "communication")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A box of a timeline.

    Attributes:
        tasks: its tasks, in the order of their starts.
        start_s: start of the first.
        end_s: end of the last.
        spent: seconds of each kind, one below the other in the box.
        critical: whether it is on the critical path.
        label: text in it; empty for none.
    """

    tasks: tuple[StepTask, ...]
    start_s: float
    end_s: float
    spent: dict[str, float]
    critical: bool
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of a timeline.

    Attributes:
        label: its name.
        lanes: the blocks of each group of devices, one group below the other.
        computing_s: seconds of computation of all its tasks.
        receiving_s: seconds of receiving.
    """

    label: str
    lanes: tuple[tuple[Block, ...], ...]
    computing_s: float
    receiving_s: float


def lines_of(found: Gathered, step: StepUse, pixel_s: float) -> list[Line]:
    """Return the rows of a timeline.

    Args:
        found: the report's contents.
        step: the step.
        pixel_s: seconds of a quarter of a pixel: neighbours of one kind that are nearer are merged.
    """
    if step.stages is not None:
        return [
            _line(lane, [[task for task in step.tasks if number in task.lanes]], pixel_s, numbered=True)
            for number, lane in enumerate(step.lanes)
        ]
    layers = found.plan.layers
    rows = parts(layers) if len(layers) > MOST_ROWS else [Row(one, (one,)) for one in layers]
    by_layer: dict[str, list[StepTask]] = {layer: [] for layer in layers}
    for task in step.tasks:
        by_layer[task.layer].append(task)
    found_lines = []
    for each in rows:
        tasks = [task for layer in each.layers for task in by_layer[layer]]
        lanes = [[task for task in tasks if number in task.lanes] for number in range(len(step.lanes))]
        found_lines.append(_line(each.label, lanes, pixel_s, blocks=len(each.layers) > 1))
    return found_lines


def _line(
    label: str,
    lanes: Sequence[Sequence[StepTask]],
    pixel_s: float,
    *,
    blocks: bool = False,
    numbered: bool = False,
) -> Line:
    every = {id(task): task for tasks in lanes for task in tasks}.values()
    return Line(
        label=label,
        lanes=tuple(tuple(_blocks(tasks, pixel_s, blocks=blocks, numbered=numbered)) for tasks in lanes),
        computing_s=sum(task.seconds for task in every if task.kind != "communication"),
        receiving_s=sum(task.seconds for task in every if task.kind == "communication"),
    )


def _blocks(tasks: Sequence[StepTask], pixel_s: float, *, blocks: bool, numbered: bool) -> Iterator[Block]:
    """Yield the boxes of one group in a row; with ``blocks`` a box for each block of the network."""
    ordered = sorted(
        (task for task in tasks if task.seconds > 0), key=lambda task: (task.start_s, task.end_s)
    )
    for critical in (False, True):
        own: list[StepTask] = []
        for task in ordered:
            if task.critical is not critical:
                continue
            if own and not _joins(own[-1], task, pixel_s, blocks=blocks, numbered=numbered):
                yield _block(own, numbered=numbered)
                own = []
            own.append(task)
        if own:
            yield _block(own, numbered=numbered)


def _joins(last: StepTask, task: StepTask, pixel_s: float, *, blocks: bool, numbered: bool) -> bool:
    """Return whether a task belongs to the box of the one before it."""
    near = task.start_s - last.end_s <= pixel_s
    if numbered:
        return near and (last.item, last.phase == "forward") == (task.item, task.phase == "forward")
    if blocks:
        return near and block_of(last.layer) == block_of(task.layer)
    return near and last.kind == task.kind


def _block(tasks: Iterable[StepTask], *, numbered: bool) -> Block:
    own = tuple(tasks)
    spent = {kind: sum(task.seconds for task in own if task.kind == kind) for kind in KINDS}
    return Block(
        tasks=own,
        start_s=own[0].start_s,
        end_s=max(task.end_s for task in own),
        spent={kind: number for kind, number in spent.items() if number},
        critical=own[0].critical,
        label=str(own[0].item + 1) if numbered and own[0].item is not None else "",
    )
