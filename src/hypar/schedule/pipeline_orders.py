"""Schedules: the orders in which the stages of a pipeline work, and the figures that follow from an order alone.

A schedule gives for each stage the microbatches that it takes forward and backward in each step, one piece of work at a
time. Those that flush differ in how many pieces a stage takes forward before the first backward, and in the order of errors.

Sources: ``gpipe`` is Huang et al., GPipe (NeurIPS 2019), Figure 2c; ``1f1b`` Narayanan et al., Memory-Efficient
Pipeline-Parallel DNN Training (ICML 2021), PipeDream-Flush; ``interleaved`` Narayanan et al., Efficient Large-Scale Language
Model Training on GPU Clusters Using Megatron-LM (SC21), 2.2; ``layer-block`` Mori et al., A layer-block-wise pipeline for
memory and bandwidth reduction in distributed deep learning (MLSP 2017).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate
from operator import ge
from typing import NamedTuple

from hypar.plan.records import FLUSHES


class Moment(NamedTuple):
    """A piece of work of a stage on a microbatch, and how many others wait behind each piece but the last.

    The pieces of a microbatch are the forward phase of each part, then the backward phases in reverse.
    """

    piece: int
    waiting: tuple[int, ...]


ALONE = (Moment(0, (0,)), Moment(1, (0,)))
"""The moments of a step without stages."""


class Work(NamedTuple):
    """One piece of work of a stage, ``forward``, or ``backward`` with the gradients, on a microbatch in a part, from 0.

    Behind the ``final`` one the part's weights are updated, with the gradients of its mini-batch.
    """

    phase: str
    item: int
    part: int = 0
    final: bool = False


class Schedule(NamedTuple):
    """An order of work, one of ``FLUSHES``, which says whether the pipeline runs empty after each mini-batch.

    Each stage works for a number of parts of the network; ``interleaved`` in one part is ``1f1b``.
    """

    name: str
    parts: int = 1

    def steps(
        self, stage: int, stages: int, microbatches: int, minibatches: int | None = None
    ) -> list[list[Work]]:
        """Return the work of a stage in each step; if the pipeline flushes, a step is a mini-batch.

        By default there are enough mini-batches for a step in which every stage has its full work.
        """
        if not FLUSHES[self.name]:
            return _layer_block(stage, stages, minibatches or 2 * stages + 1)
        ends = range(0, (minibatches or 1) * microbatches, microbatches)
        return [self._minibatch(stage, stages, range(start, start + microbatches)) for start in ends]

    def _minibatch(self, stage: int, stages: int, items: range) -> list[Work]:
        """Return the work on a mini-batch: some pieces forward, then one forward and one backward in turn.

        As many microbatches as stages go through the first part, then through the next; errors take the parts in reverse.
        """
        turns = [
            (part, item)
            for start in range(0, len(items), stages)
            for part in range(self.parts)
            for item in items[start : start + stages]
        ]
        behind, back = stages - stage - 1, turns
        first = behind if self.parts == 1 else 2 * behind + (self.parts - 1) * stages
        if self.name == "gpipe":
            first, back = len(turns), turns[::-1]
        ahead = [Work("forward", item, part) for part, item in turns]
        works = ahead[:first]
        for at, (part, item) in enumerate(back, first):
            works += ahead[at : at + 1]
            works.append(Work("backward", item, self.parts - 1 - part, item == back[-1][1]))
        return works


def _layer_block(stage: int, stages: int, minibatches: int) -> list[list[Work]]:
    """Return the work of a stage: in step T stage S of P takes mini-batch T - S + 1 forward and T - 2P + S backward."""
    last = 2 * stages - 1
    each = (
        (Work("forward", step - stage), Work("backward", step - last + stage, final=True))
        for step in range(minibatches + last)
    )
    return [[work for work in works if 0 <= work.item < minibatches] for works in each]


def in_flight(works: Iterable[Work]) -> int:
    """Return the most microbatches that a stage has taken forward, or begun to, and not yet backward, each once for a part."""
    return max(accumulate(1 if work.phase == "forward" else -1 for work in works), default=0)


def moments(works: Iterable[Work], parts: int) -> tuple[Moment, ...]:
    """Return the moments at which most microbatches wait: those that no other one of the same piece exceeds behind every piece."""
    last = 2 * parts - 1
    waiting, seen = [0] * (last + 1), [set[tuple[int, ...]]() for _ in range(last + 1)]
    for work in works:
        piece = work.part if work.phase == "forward" else last - work.part
        if piece:
            waiting[piece - 1] -= 1
        seen[piece].add(tuple(waiting[:last]))
        waiting[piece] += 1
    return tuple(Moment(piece, own) for piece, each in enumerate(seen) for own in sorted(_largest(each)))


def _largest(each: Collection[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    for own in each:
        if not any(own != other and all(map(ge, other, own)) for other in each):
            yield own


def staleness(works: Iterable[Work], microbatches: int) -> int:
    """Return the largest number of earlier mini-batches whose updates a forward's weights miss."""
    updates: dict[int, int] = {}
    most = 0
    for work in works:
        if work.phase == "forward":
            most = max(most, work.item // microbatches - updates.get(work.part, 0))
        updates[work.part] = updates.get(work.part, 0) + work.final
    return most
