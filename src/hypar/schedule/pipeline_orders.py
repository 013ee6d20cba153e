"""In what order the stages of a pipeline work: schedules by name, and what follows from an order alone.

A schedule says for each stage which mini-batches, or microbatches of them, it takes forward and backward in each
step. A stage does one thing at a time, in that order; a step ends when all stages have done theirs.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError, UnknownNameError, shown
from hypar.plan.splits import FLUSHES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Work(NamedTuple):
    """One thing that a stage does.

    Attributes:
        phase: ``forward``, ``backward`` with the gradients, or ``update``.
        item: number of the microbatch, or of the mini-batch whose gradients an update applies, from 0.
    """

    phase: str
    item: int


Steps = list[list[Work]]
"""What one stage does in each step, in order."""


def layer_block(stage: int, stages: int, _microbatches: int, minibatches: int) -> Steps:
    """In step T stage S of P takes mini-batch T - S + 1 forward, then T - 2P + S backward, and updates with it.

    Source: Mori et al., A layer-block-wise pipeline for memory and bandwidth reduction in distributed deep learning
    (MLSP 2017).
    """
    found: Steps = []
    for step in range(1, minibatches + 2 * stages):
        ahead, back = step - stage - 1, step - 2 * stages + stage
        found.append([Work("forward", ahead)] if 0 <= ahead < minibatches else [])
        if 0 <= back < minibatches:
            found[-1] += [Work("backward", back), Work("update", back)]
    return found


def gpipe(_stage: int, _stages: int, microbatches: int, minibatches: int) -> Steps:
    """All microbatches forward, then all backward, the last one first; a step is a mini-batch.

    Source: Huang et al., GPipe (NeurIPS 2019), Figure 2c.
    """
    found = []
    for batch in range(minibatches):
        items = range(batch * microbatches, (batch + 1) * microbatches)
        back = [Work("backward", item) for item in reversed(items)]
        found.append([*(Work("forward", item) for item in items), *back, Work("update", batch)])
    return found


def one_forward_one_backward(stage: int, stages: int, microbatches: int, minibatches: int) -> Steps:
    """A microbatch forward for each stage behind, then one forward and one backward in turn.

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


class Schedule(NamedTuple):
    """An order of work.

    Attributes:
        steps: for a stage from 0, of some stages, with some microbatches, over some mini-batches: its work.
        flushes: whether the pipeline runs empty after each mini-batch, so that no weights are stale.
        summary: what it is.
    """

    steps: Callable[[int, int, int, int], Steps]
    flushes: bool
    summary: str

    def minibatches(self, stages: int) -> int:
        """So many that there is a step in which every stage has its full work, and another after it."""
        return 2 if self.flushes else 2 * stages + 1


_ORDERS: dict[str, tuple[Callable[[int, int, int, int], Steps], str]] = {
    "layer-block": (layer_block, "one mini-batch a step, no flush, stale weights"),
    "gpipe": (gpipe, "all microbatches forward, then all backward, flush"),
    "1f1b": (one_forward_one_backward, "microbatches forward and backward in turn, flush"),
}

SCHEDULES = {name: Schedule(_ORDERS[name][0], flushes, _ORDERS[name][1]) for name, flushes in FLUSHES.items()}


def in_flight(works: Iterable[Work]) -> int:
    """The most microbatches that a stage had taken forward, or begun to, and not yet backward."""
    changes = {"forward": 1, "backward": -1, "update": 0}
    return max(accumulate(changes[work.phase] for work in works), default=0)


def staleness(works: Iterable[Work], microbatches: int) -> int:
    """By how many mini-batches before it the weights that a forward read were at most not yet updated."""
    updates, most = 0, 0
    for work in works:
        if work.phase == "update":
            updates += 1
        elif work.phase == "forward":
            most = max(most, work.item // microbatches - updates)
    return most


MOST_TASKS = 2**20
"""Tasks of one timeline: some ten seconds."""


TASKS = 5
"""Tasks of a stage for a microbatch at most: forward, backward, sending of both, update."""


def checked_schedule(name: str) -> str:
    """A schedule that there is.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if not isinstance(name, str) or name not in SCHEDULES:
        raise UnknownNameError("schedule", str(name), SCHEDULES)
    return name


def checked_microbatches(asked: int | None, schedule: str, batch: int, stages: int) -> int:
    """How many microbatches; as many as stages, or the next fewer that divide the mini-batch, if none are asked for.

    Args:
        asked: how many.
        schedule: one of ``SCHEDULES``.
        batch: samples in a mini-batch.
        stages: how many stages they go through.

    Raises:
        OptionError: the mini-batch is not divided so.
    """
    order = SCHEDULES[schedule]
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
    most = MOST_TASKS // (TASKS * stages * order.minibatches(stages))
    if asked > most:
        raise OptionError("microbatches", f"found {asked:,}", f"at most {most:,} in {stages} stages")
    return asked
