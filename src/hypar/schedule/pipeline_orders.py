"""Schedules: the orders in which the stages of a pipeline work, and the figures that follow from an order alone.

A schedule gives for each stage the mini-batches, or microbatches of them, that it takes forward and backward in each
step. A stage does one piece of work at a time, in that order; a step ends when all stages have done theirs.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError, shown
from hypar.plan.stages import FLUSHES, INTERLEAVED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Moment(NamedTuple):
    """A piece of work of a stage on a microbatch while others wait.

    Attributes:
        piece: its number among the pieces of a microbatch: the forward phase of each part, then the backward phases in reverse.
        waiting: the number of other microbatches that wait behind each piece but the last.
    """

    piece: int
    waiting: tuple[int, ...]


ALONE = (Moment(0, (0,)), Moment(1, (0,)))
"""The moments of a step without stages."""


class Work(NamedTuple):
    """One piece of work of a stage.

    Attributes:
        phase: ``forward``, ``backward`` with the gradients, or ``update``.
        item: number of the microbatch, or of the mini-batch whose gradients an update applies, from 0.
        part: number of the stage's part that does it, from 0; 0 for a stage in one part.
    """

    phase: str
    item: int
    part: int = 0


Steps = list[list[Work]]
"""The work of one stage in each step, in order."""


def layer_block(stage: int, stages: int, _microbatches: int, minibatches: int) -> Steps:
    """Return the steps of the layer-block pipeline for one stage.

    In step T stage S of P takes mini-batch T - S + 1 forward, then T - 2P + S backward, and updates with it. Source: Mori
    et al., A layer-block-wise pipeline for memory and bandwidth reduction in distributed deep learning (MLSP 2017).
    """
    found: Steps = []
    for step in range(1, minibatches + 2 * stages):
        ahead, back = step - stage - 1, step - 2 * stages + stage
        found.append([Work("forward", ahead)] if 0 <= ahead < minibatches else [])
        if 0 <= back < minibatches:
            found[-1] += [Work("backward", back), Work("update", back)]
    return found


def gpipe(_stage: int, _stages: int, microbatches: int, minibatches: int) -> Steps:
    """Take all microbatches forward, then all backward, the last one first; a step is a mini-batch.

    Source: Huang et al., GPipe (NeurIPS 2019), Figure 2c.
    """
    found = []
    for batch in range(minibatches):
        items = range(batch * microbatches, (batch + 1) * microbatches)
        back = [Work("backward", item) for item in reversed(items)]
        found.append([*(Work("forward", item) for item in items), *back, Work("update", batch)])
    return found


def one_forward_one_backward(stage: int, stages: int, microbatches: int, minibatches: int) -> Steps:
    """Take a microbatch forward for each stage behind, then one forward and one backward in turn.

    Source: Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training (ICML 2021), PipeDream-Flush.
    """
    found = []
    first = min(stages - stage - 1, microbatches)
    for batch in range(minibatches):
        start = batch * microbatches
        works = [Work("forward", start + item) for item in range(first)]
        for item in range(microbatches):
            if first + item < microbatches:
                works.append(Work("forward", start + first + item))
            works.append(Work("backward", start + item))
        found.append([*works, Work("update", batch)])
    return found


def interleaved(parts: int, stage: int, stages: int, microbatches: int, minibatches: int) -> Steps:
    """Return the steps of interleaved 1F1B: a stage works for several parts of the network, a few microbatches each in turn.

    As many microbatches as stages go through the first part, then through the next; errors take the parts in reverse.
    A stage takes work forward until the first error can be back, then one piece forward and one backward in turn.
    The weights of a part are updated as soon as its last backward is done. The number of microbatches is a multiple of
    that of the stages.

    Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (SC21), 2.2.
    """
    total = parts * microbatches
    first = min(2 * (stages - stage - 1) + (parts - 1) * stages, total)
    found = []
    for batch in range(minibatches):

        def work(phase: str, number: int, start: int = batch * microbatches) -> Work:
            turn, place = divmod(number, parts * stages)
            part, item = divmod(place, stages)
            part = part if phase == "forward" else parts - 1 - part
            return Work(phase, start + turn * stages + item, part)

        works = [work("forward", number) for number in range(first)]
        for number in range(total):
            if first + number < total:
                works.append(work("forward", first + number))
            back = work("backward", number)
            works.append(back)
            if back.item == (batch + 1) * microbatches - 1:
                works.append(Work("update", batch, back.part))
        found.append(works)
    return found


class Schedule(NamedTuple):
    """An order of work.

    Attributes:
        steps: function from a stage (from 0) and the numbers of stages, microbatches and mini-batches to its work.
        flushes: whether the pipeline runs empty after each mini-batch, so that no weights are stale.
        summary: a description in one line.
        parts: the number of parts of the network that each stage works for.
    """

    steps: Callable[[int, int, int, int], Steps]
    flushes: bool
    summary: str
    parts: int = 1

    def minibatches(self, stages: int) -> int:
        """Return a number of mini-batches with a step in which every stage has its full work, and another after it."""
        return 2 if self.flushes else 2 * stages + 1


_ORDERS: dict[str, tuple[Callable[[int, int, int, int], Steps], str]] = {
    "layer-block": (layer_block, "one mini-batch a step, no flush, stale weights"),
    "gpipe": (gpipe, "all microbatches forward, then all backward, flush"),
    "1f1b": (one_forward_one_backward, "microbatches forward and backward in turn, flush"),
    INTERLEAVED: (one_forward_one_backward, "as 1f1b, each stage in several parts in turn, flush"),
}

SCHEDULES = {name: Schedule(_ORDERS[name][0], flushes, _ORDERS[name][1]) for name, flushes in FLUSHES.items()}
"""The schedules by name, each stage in one part: ``interleaved`` is ``1f1b`` then."""


def schedule_of(name: str, parts: int | None = None) -> Schedule:
    """Return a schedule.

    Args:
        name: one of ``SCHEDULES``.
        parts: the number of parts of each stage, for ``interleaved``.
    """
    if parts is None:
        return SCHEDULES[name]
    return SCHEDULES[name]._replace(steps=partial(interleaved, parts), parts=parts)


_CHANGES = {"forward": 1, "backward": -1, "update": 0}
"""The change of the number of microbatches in flight by a piece of work."""


def in_flight(works: Iterable[Work]) -> int:
    """Return the largest number of microbatches that a stage has taken forward, or begun to, and not yet backward.

    A microbatch counts once for each part of the stage.
    """
    return max(accumulate(_CHANGES[work.phase] for work in works), default=0)


def moments(works: Iterable[Work], parts: int) -> tuple[Moment, ...]:
    """Return the moments at which most microbatches wait: those that no other one of the same piece exceeds behind every piece."""
    last = 2 * parts - 1
    waiting, seen = [0] * (last + 1), set[Moment]()
    for work in works:
        if work.phase != "update":
            piece = work.part if work.phase == "forward" else last - work.part
            if piece:
                waiting[piece - 1] -= 1
            seen.add(Moment(piece, tuple(waiting[:last])))
            waiting[piece] += 1
    return tuple(
        sorted(
            one
            for one in seen
            if not any(
                one != other and one.piece == other.piece and all(map(int.__le__, one.waiting, other.waiting))
                for other in seen
            )
        )
    )


def staleness(works: Iterable[Work], microbatches: int) -> int:
    """Return the largest number of earlier mini-batches whose updates a forward's weights miss."""
    updates: dict[int, int] = {}
    most = 0
    for work in works:
        if work.phase == "update":
            updates[work.part] = updates.get(work.part, 0) + 1
        elif work.phase == "forward":
            most = max(most, work.item // microbatches - updates.get(work.part, 0))
    return most


MOST_TASKS = 2**20
"""Tasks of one timeline at most, which take some ten seconds."""


TASKS = 5
"""Tasks of a stage, or of a layer, for a microbatch, by which microbatches are limited."""


def checked_microbatches(asked: int | None, schedule: str, batch: int, stages: int, layers: int = 1) -> int:
    """Return the number of microbatches; by default the largest divisor of the mini-batch up to the number of stages.

    Args:
        asked: the number requested.
        schedule: one of ``SCHEDULES``.
        batch: samples in a mini-batch.
        stages: the number of stages.
        layers: the number of layers.

    Raises:
        OptionError: the number does not divide the mini-batch, or is too large, or not allowed by the schedule.
    """
    order = SCHEDULES[schedule]
    if schedule == INTERLEAVED:
        return _checked_turns(asked, batch, stages, layers)
    if not order.flushes:
        if asked not in {None, 1}:
            allowed = f"1, as {schedule!r} takes whole mini-batches"
            raise OptionError("microbatches", f"found {shown(asked)}", allowed)
        return 1
    if asked is None:
        return max(count for count in range(1, stages + 1) if batch % count == 0)
    whole = isinstance(asked, int) and not isinstance(asked, bool)
    if not whole or asked < 1 or batch % asked:
        raise OptionError("microbatches", f"found {shown(asked)}", f"a divisor of the batch {batch:,}")
    return _limited(asked, order, stages, layers)


def _limited(asked: int, order: Schedule, stages: int, layers: int) -> int:
    """Refuse more microbatches than a timeline has room for."""
    most = MOST_TASKS // (TASKS * max(stages, layers) * order.minibatches(stages))
    if asked > most:
        raise OptionError("microbatches", f"found {asked:,}", f"at most {most:,} in {stages} stages")
    return asked


def _checked_turns(asked: int | None, batch: int, stages: int, layers: int) -> int:
    """Return the number of microbatches of the interleaved schedule: a multiple of the stages, which take turns."""
    count = stages if asked is None else asked
    if count % stages or batch % count:
        found = f"found {count:,} of a batch of {batch:,}"
        allowed = f"a multiple of the {stages} stages that divides the batch, in schedule {INTERLEAVED!r}"
        raise OptionError("microbatches", found, allowed)
    return _limited(count, SCHEDULES[INTERLEAVED], stages, layers)
