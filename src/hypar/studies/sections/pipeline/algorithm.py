"""The pipeline's schedule and its Algorithm 1, run with tags for data."""

from __future__ import annotations

from collections import Counter

from hypar.files.figures import Figure
from hypar.schedule.pipeline import Pace, lower, ran, step_ends
from hypar.schedule.pipeline_orders import SCHEDULES, in_flight, staleness
from hypar.studies.page import Section
from hypar.studies.sections.pipeline.published import STARTS_OF
from hypar.timeline import run

DEPTHS = tuple(STARTS_OF)


class Rings:
    """Algorithm 1 with the number of a mini-batch in place of its data, counting reads that find another mini-batch.

    Attributes:
        depth: P.
        count: N.
        slots: number of slots in each ring, by stage; ring 0 holds the input.
        wrong: number of reads of each kind that found another mini-batch than they should.
    """

    def __init__(
        self, depth: int, count: int, *, fewer: int = 0, image: int = 0, at_once: bool = True
    ) -> None:
        """Run all steps.

        Args:
            depth: P.
            count: N.
            fewer: number of slots that each ring of activations lacks.
            image: number of slots beyond 2P in the ring of the input when it is written; it is read with 2P + 2.
            at_once: whether a stage reads the error that the next stage made in the same step, as printed, not in
                the step before.
        """
        self.depth, self.count = depth, count
        self.slots = [2 * depth + 2, *(2 * depth - 2 * stage + 2 - fewer for stage in range(1, depth + 1))]
        self.wrong: Counter[str] = Counter()
        self._held: list[dict[int, int]] = [{} for _ in self.slots]
        self._errors: dict[int, int] = {}
        for step in range(count + 2 * depth - 1):
            self._held[0][step % (2 * depth + image)] = step
            self._forward(step)
            self._backward(step, at_once=at_once)

    def _forward(self, step: int) -> None:
        """Run lines 3 to 5."""
        for stage in range(1, self.depth + 1):
            item = step - stage + 1
            if 0 <= item < self.count:
                self._read("inputs" if stage == 1 else "forward", stage - 1, item)
                self._held[stage][item % self.slots[stage]] = item

    def _backward(self, step: int, *, at_once: bool) -> None:
        """Run lines 6 to 10."""
        errors = self._errors if at_once else dict(self._errors)
        last = step - self.depth + 1
        if 0 <= last < self.count:
            self._errors[self.depth + 1] = last
        for stage in range(self.depth, 0, -1):
            item = step - 2 * self.depth + stage
            if 0 <= item < self.count:
                self._read("activations", stage, item)
                self.wrong["errors"] += errors.get(stage + 1) != item
                self._errors[stage] = errors.get(stage + 1, -1)

    def _read(self, kind: str, stage: int, item: int) -> None:
        self.wrong[kind] += self._held[stage].get(item % self.slots[stage]) != item


def rings() -> Section:
    """Run Algorithm 1 as printed, and with what its text says."""
    rows = []
    for depth in DEPTHS:
        count = 3 * depth
        printed = Rings(depth, count)
        mended = Rings(depth, count, image=2, at_once=False)
        short = Rings(depth, count, fewer=1, image=2, at_once=False)
        reads = depth * count
        rows.append((
            str(depth), str(count), " ".join(map(str, printed.slots[1:])), str(reads - count),
            str(printed.wrong["forward"]), str(reads), str(printed.wrong["activations"]),
            str(short.wrong["activations"]), str(count), str(printed.wrong["inputs"]), str(mended.wrong["inputs"]),
            str(reads), str(printed.wrong["errors"]), str(mended.wrong["errors"]),
        ))  # fmt: skip
    return Section(
        title="Algorithm 1: ring indices",
        text=(
            "Algorithm 1 run line by line, with the number of a mini-batch in place of its data: how many reads there are and"
            " how many find another mini-batch than the paper's text says. Stage S keeps Y in a ring of 2P - 2S + 2 slots;"
            " that is right, and one slot fewer is too few as long as new mini-batches come in. (The text counts data sets x"
            " from 0 to 2P - 2S + 2, which would be one more.) Two lines do not come out as printed. Line 2 writes the input"
            " with mod 2P where line 4, for S = 1, reads it with mod (2P + 2): from mini-batch 2P on another one is found;"
            " with 2P + 2 in both places none. Lines 6 to 8, run in the printed order, give each stage the error that"
            " the stage behind it made in the same step, which is of a later mini-batch than the activations it is paired"
            " with; by the text, and where all workers run at once, a stage gets the error of the step before, and all are"
            " right. The schedule above is the text's."
        ),
        heads=("P", "N", "slots", "forward reads", "wrong", "backward reads", "wrong", "with one slot fewer",
               "inputs", "wrong", "with 2P + 2", "errors", "wrong", "of the step before"),
        rows=tuple(rows),
    )  # fmt: skip


def simulated() -> Section:
    """Run the schedule in the engine."""
    rows: list[tuple[str, ...]] = []
    series: dict[str, list[float | None]] = {}
    schedule = SCHEDULES["layer-block"]
    for depth in DEPTHS:
        count = 3 * depth
        lowered = lower(schedule, [Pace()] * depth, 1, count)
        timeline = run(lowered.tasks)
        done = ran(lowered, timeline)
        kept, late = [in_flight(works) for works in done], [staleness(works, 1) for works in done]
        formulas = [2 * depth - 2 * number + 2 for number in range(1, depth + 1)]
        columns = (formulas, kept, [formula - 1 for formula in formulas], late)
        rows.append((str(depth), str(count), str(count + 2 * depth - 1), str(len(step_ends(timeline))),
                     *(" ".join(map(str, column)) for column in columns)))  # fmt: skip
        series[f"P = {depth}"] = [*map(float, kept), *[None] * (max(DEPTHS) - depth)]
    return Section(
        title="Schedule: what is in flight and what is stale",
        text=(
            "At step T stage S of P takes mini-batch T - S + 1 forward, then T - 2P + S backward, and updates its weights."
            " Simulated are N mini-batches, every forward and backward a unit of time; the steps are those that the engine"
            " ended, in flight is the most that a stage has taken forward and not yet backward, and stale by how many"
            " mini-batches the weights of a forward are behind at most. No weights are stashed."
        ),
        heads=("P", "N", "steps, N + 2P - 1", "simulated", "in flight, 2P - 2S + 2", "simulated",
               "stale, 2P - 2S + 1", "simulated"),
        rows=tuple(rows),
        figure=Figure(
            title="mini-batches in flight", x=[str(number + 1) for number in range(max(DEPTHS))], x_label="stage S",
            y_label="mini-batches", series=series, kind="lines",
        ),
    )  # fmt: skip
