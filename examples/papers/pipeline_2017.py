"""Mori et al., A layer-block-wise pipeline (MLSP 2017): stages counted as the paper counts them, and its Algorithm 1."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import kit

import hypar

if TYPE_CHECKING:
    from collections.abc import Sequence

GIVEN = kit.given("pipeline")
BATCH: int = GIVEN["batch"]
STARTS: dict[int, str] = GIVEN["starts"]
EXTRA, TWICE = GIVEN["extra"], GIVEN["twice"]
"""The stage that is printed with one more tensor, and those whose errors are printed twice as large."""

BATCHES = (1, BATCH)
MISPRINTS = ("extra", "twice", "digits")
"""What is printed otherwise than counted: one more tensor of the stage ``EXTRA``, as large as its input; errors of the stages
``TWICE``; and sums of numbers of two digits, the weights in all rounded, the rest cut off."""


@cache
def network() -> hypar.LayerGraph:
    """Load the network; the paper counts no biases."""
    graph = hypar.load_model("vgg-f")
    return graph.with_fields({layer.name: {"bias": False} for layer in graph.layers if layer.weighted})


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of consecutive layers; bytes are of one image."""

    number: int  # from 1
    layers: tuple[str, str]  # its first and its last layer
    macs: int  # multiply-accumulates, forward
    weights: int  # bytes of weights, with the statistics of batch normalisations
    gradients: int  # bytes of gradients
    kept: int  # bytes of the outputs of all its layers, but for those that only change the shape
    received: int  # bytes from the previous stage
    sent: int  # bytes to the next stage
    returned: int  # bytes of the error to the previous stage
    in_flight: int  # mini-batches whose outputs it keeps, 2P - 2S + 2

    def memory(self, batch: int) -> int:
        """Return the bytes that it holds, with what it receives and without gradients of statistics."""
        tensors = self.in_flight * (self.kept + self.received) + self.kept
        return self.weights + self.gradients + batch * tensors


@cache
def stage(start: int, end: int, number: int, stages: int) -> Stage:
    """Return the stage of the layers from one place to before another; the network is a chain."""
    graph = network()
    layers, size = graph.layers[start:end], graph.element_bytes
    before, last = graph.layers[start - 1] if start else None, end == len(graph.layers)
    received = 0 if before is None else size * math.prod(before.shape.values())
    trained = any(layer.num_parameters for layer in graph.layers[:start])
    gradients = size * sum(layer.num_parameters for layer in layers)
    return Stage(
        number=number,
        layers=(layers[0].name, layers[-1].name),
        macs=sum(layer.macs() for layer in layers),
        weights=gradients + size * sum(layer.nest(1).saved.statistics for layer in layers),
        gradients=gradients,
        kept=size * sum(math.prod(layer.shape.values()) for layer in layers if layer.op_name != "flatten"),
        received=received,
        sent=0 if last else size * math.prod(layers[-1].shape.values()),
        returned=received if trained else 0,
        in_flight=2 * stages - 2 * number + 2,
    )


def between(bounds: Sequence[int]) -> tuple[Stage, ...]:
    """Return the stages between some places."""
    return tuple(stage(*ends, number, len(bounds) - 1) for number, ends in enumerate(pairwise(bounds), 1))


@cache
def divided(starts: str = STARTS[4]) -> tuple[Stage, ...]:
    """Divide the network into the stages that begin with some layers."""
    names = [layer.name for layer in network().layers]
    return between([0, *map(names.index, starts.split(",")[1:]), len(names)])


class Counted:
    """The sums of Tables I and II over some stages, at batch 1, with or without the paper's misprints."""

    def __init__(self, stages: Sequence[Stage] = (), misprints: Sequence[str] = ()) -> None:
        """Count some stages, the published ones by default, with some of the misprints."""
        self.stages = stages or divided()
        self.extra, self.twice, self.digits = (word in misprints for word in MISPRINTS)

    def kept(self, own: Stage) -> int:
        """Return the bytes that a stage keeps of an image."""
        return own.kept + (own.received if self.extra and own.number == EXTRA else 0)

    def activations(self, own: Stage) -> int:
        """Return the bytes of all images in flight."""
        return own.in_flight * self.kept(own)

    def errors(self, own: Stage) -> int:
        """Return the bytes of the errors of an image."""
        return self.kept(own) * (2 if self.twice and own.number in TWICE else 1)

    def cut(self, size: int) -> int:
        """Cut a size to two decimals in MB, if digits are."""
        return size // 10_000 * 10_000 if self.digits else size

    @property
    def weights(self) -> int:
        """Return the bytes of all weights, and of as many gradients."""
        own = sum(stage.weights for stage in self.stages)
        return 2 * (round(own, -4) if self.digits else own)

    def pipeline(self, batch: int) -> int:
        """Return the bytes of all stages."""
        sizes = (size for own in self.stages for size in (self.activations(own), self.errors(own)))
        return self.weights + batch * sum(map(self.cut, sizes))

    def threads(self, batch: int) -> int:
        """Return the bytes of as many threads, each with the whole network and a mini-batch of its own."""
        whole = self.cut(sum(map(self.kept, self.stages)))
        return len(self.stages) * (self.weights + 2 * batch * whole)


def table_i() -> kit.Result:
    plain, extra = Counted(), Counted(misprints=["extra"])
    rows = []
    for who, count in (("a thread", 1), ("all", 4)):
        for tensor in ("W", "dW", "Y", "dY"):
            for batch in BATCHES if "Y" in tensor else (1,):
                own = [
                    count * (batch * sum(map(read.kept, read.stages)) if "Y" in tensor else read.weights // 2)
                    for read in (plain, extra)
                ]
                words = f"batch {batch}" if "Y" in tensor else "any batch"
                rows.append((f"{tensor}, {who}, {words}", own[0] / 1e6, own[1] / 1e6))
    moved = 4 * plain.weights / 2e6
    return {"rows": [*rows, *((f"{way}, all, any batch", moved, moved) for way in ("received", "sent"))]}


def table_ii() -> kit.Result:
    plain, extra, stages = Counted(), Counted(misprints=["extra"]), divided()
    rows: list[tuple[Any, ...]] = [
        (str(own.number), " to ".join(own.layers), own.weights / 1e6, own.in_flight, own.kept // 4,
         plain.activations(own) / 1e6, plain.errors(own) / 1e6)
        for own in stages
    ]  # fmt: skip
    third, last = stages[EXTRA - 1], stages[-1]
    sums = [sum(row[place] for row in rows) for place in (2, 5, 6)]
    return {
        "rows": [*rows, ("all", "", sums[0], None, None, *sums[1:])], "weights": sums[0],
        "numbers": third.kept // 36, "tenth": extra.activations(third) / 1e6,
        "third": 2 * extra.errors(third) / 1e6, "fourth": 2 * plain.errors(last) / 1e6,
    }  # fmt: skip


def table_ii_at_batch() -> kit.Result:
    plain, read = Counted(), Counted(misprints=MISPRINTS)
    rows: list[tuple[Any, ...]] = []
    for own in divided():
        sizes = [size for count in (Counted.activations, Counted.errors)
                 for size in (count(plain, own), read.cut(count(read, own)))]  # fmt: skip
        rows.append((str(own.number), *(BATCH * size / 1e6 for size in sizes)))
    return {"rows": [*rows, ("all", *(math.fsum(row[place] for row in rows) for place in range(1, 5)))]}


def scaled(sizes: Sequence[float]) -> tuple[float, float]:
    """Return MB of the first and GB of the second."""
    return sizes[0] / 1e6, sizes[1] / 1e9


def totals() -> kit.Result:
    every = [Counted(misprints=MISPRINTS[:count]) for count in range(4)]
    counts = {"pipeline": Counted.pipeline, "threads": Counted.threads}
    rows = [
        (what, batch, *(count(read, batch) / 1e6 for read in every))
        for what, count in counts.items()
        for batch in BATCHES
    ]
    held = [sum(own.memory(batch) for own in divided()) for batch in BATCHES]
    groups = [kit.scored(planned_stages(4, batch)).groups or () for batch in BATCHES]
    planned = [sum(group.memory_bytes for group in own) for own in groups]
    return {
        "rows": rows, "x": [f"{row[0]}, {row[1]}" for row in rows], "held": scaled(held),
        "planned": scaled(planned),
    }  # fmt: skip


def planned_stages(stages: int, batch: int = 1) -> hypar.Plan:
    """Return hypar's plan of the paper's stages under its schedule."""
    return hypar.plan_model(
        network(), batch=batch, graph="operators", levels=0, starts=STARTS[stages], schedule="layer-block",
        hardware="p100-4x4",
    )  # fmt: skip


def ahead() -> list[int]:
    """Return the bytes that each stage receives for an image: the image itself, then the previous stage's output."""
    first = network().layers[0]
    return [
        network().element_bytes * math.prod(first.shape.values()),
        *(own.sent for own in divided()[:-1]),
    ]


def transfers() -> kit.Result:
    def row(what: str, batch: int, sizes: Sequence[int]) -> tuple[Any, ...]:
        digits = sum(batch * round(size, -3) // 10_000 for size in sizes) / 100 if batch > 1 else None
        return f"{what}, batch {batch}", batch * sum(sizes) / 1e6, digits

    forward, back = ahead(), [own.returned for own in divided()]
    into = [row(f"forward, into stage {number}", batch, [size])
            for batch in BATCHES for number, size in enumerate(forward, 1)]  # fmt: skip
    every = {"forward, received": forward, "forward, sent": forward[1:],
             "backward, received": back, "backward, sent": back}  # fmt: skip
    return {
        "rows": [
            *into,
            *(row(f"{what} in all", batch, own) for what, own in every.items() for batch in BATCHES),
        ]
    }


def degrees() -> kit.Result:
    rows = []
    for count, starts in STARTS.items():
        own = Counted(divided(starts))
        sizes = own.pipeline(BATCH), own.threads(BATCH)
        firsts = ", ".join(one.layers[0] for one in own.stages)
        rows.append((str(count), firsts, sizes[0] / 1e9, sizes[1] / 1e9, 1 - sizes[0] / sizes[1]))
    read = Counted(misprints=MISPRINTS)
    first, *others = STARTS[4].split(",")
    merged = [Counted(divided(f"{first},{other}")).pipeline(BATCH) / 1e9 for other in others]
    return {
        "rows": rows, "printed": 1 - read.pipeline(BATCH) / read.threads(BATCH),
        "merged": (min(merged), max(merged)), "ratio": rows[2][3] / rows[2][2],
    }  # fmt: skip


def figure_5() -> kit.Result:
    weights, gradients = (
        sum(getattr(own, part) for own in divided()) / 1e6 for part in ("weights", "gradients")
    )
    return {
        "rows": [
            (str(count), count * weights, 2 * count * weights, 2 * (count - 1) * gradients)
            for count in STARTS
        ]
    }


def figure_6() -> kit.Result:
    forward, back = sum(ahead()) / 1e6, sum(own.returned for own in divided()) / 1e6
    rows = [
        (str(batch), *(batch * size for size in (forward, back, forward + back)))
        for batch in (1, 2, 4, 8, 16, 32, 64)
    ]
    return {"rows": rows, "most": int(GIVEN["most_mb"] / (forward + back))}


class Rings:
    """Algorithm 1 with the number of a mini-batch in place of its data.

    It has the slots of each ring, ring 0 of the input; the reads of each kind that found another mini-batch than they
    should; and the number of steps in which a stage works.
    """

    def __init__(
        self, depth: int, count: int, *, fewer: int = 0, image: int = 0, at_once: bool = True
    ) -> None:
        """Run all steps for P and N, as printed unless told otherwise.

        Rings of activations may lack some slots, and the ring of the input may have more than 2P when it is written; it is
        read with 2P + 2. A stage reads the error that the next one made in the same step, as printed, or in the step before.
        """
        self.slots = [2 * depth + 2, *(2 * depth - 2 * own + 2 - fewer for own in range(1, depth + 1))]
        self.wrong: Counter[str] = Counter()
        self.steps = 0
        held: list[dict[int, int]] = [{} for _ in self.slots]
        made: dict[int, int] = {}
        for step in range(count + 2 * depth):
            held[0][step % (2 * depth + image)] = step
            ahead = {own: step - own + 1 for own in range(1, depth + 1) if 0 <= step - own + 1 < count}
            back = {own: item for own in range(depth, 0, -1) if 0 <= (item := step - 2 * depth + own) < count}
            self.steps += bool(ahead or back)
            for own, item in ahead.items():
                kind = "inputs" if own == 1 else "forward"
                self.wrong[kind] += held[own - 1].get(item % self.slots[own - 1]) != item
                held[own][item % self.slots[own]] = item
            errors = made if at_once else dict(made)
            if 0 <= step - depth + 1 < count:
                made[depth + 1] = step - depth + 1
            for own, item in back.items():
                self.wrong["activations"] += held[own].get(item % self.slots[own]) != item
                self.wrong["errors"] += errors.get(own + 1) != item
                made[own] = errors.get(own + 1, -1)


def rings() -> kit.Result:
    rows = []
    for depth in STARTS:
        count, reads = 3 * depth, 3 * depth * depth
        printed = Rings(depth, count)
        mended = Rings(depth, count, image=2, at_once=False).wrong
        short = Rings(depth, count, fewer=1, image=2, at_once=False).wrong
        wrong = printed.wrong
        rows.append(
            (str(depth), count, " ".join(map(str, printed.slots[1:])), reads - count, wrong["forward"], reads,
             wrong["activations"], short["activations"], count, wrong["inputs"], mended["inputs"], reads,
             wrong["errors"], mended["errors"])
        )  # fmt: skip
    return {"rows": rows}


def schedule() -> kit.Result:
    rows, series = [], {}
    for depth in STARTS:
        count, record = 3 * depth, planned_stages(depth).stages
        own = record.stages if record is not None else []
        kept, late = [one.in_flight for one in own], [one.staleness for one in own]
        formulas = [2 * depth - 2 * number + 2 for number in range(1, depth + 1)]
        lists = formulas, kept, [formula - 1 for formula in formulas], late
        words = (" ".join(map(str, one)) for one in lists)
        rows.append((str(depth), count, count + 2 * depth - 1, Rings(depth, count).steps, *words))
        series[f"P = {depth}"] = [*kept, *[None] * (max(STARTS) - depth)]
    return {"rows": rows, "series": series, "x": range(1, max(STARTS) + 1)}


def convergence() -> kit.Result:
    def speedup(own: Sequence[Stage]) -> float:
        return sum(one.macs for one in own) / max(one.macs for one in own)

    rows = [(str(count), float(count), speedup(divided(STARTS[count]))) for count in (2, 4, 8)]
    busiest = max(layer.macs() for layer in network().layers) / network().macs()
    return {"rows": rows, "busiest": busiest, "most": 1 / busiest}
