"""CGDP (ICPE 2018): its chunks, cost model and Algorithm 1, with its measured times and the layers of hypar's networks.

Layers are counted from 1 at the input, so the backward phase goes from the last to the first. Times are ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import kit

import hypar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

GIVEN = kit.given("cgdp")
NETWORKS: dict[str, dict[str, Any]] = GIVEN["networks"]
TIMED = tuple(name for name in NETWORKS if name != "ResNet-152")
PHASES: dict[str, float] = GIVEN["phases"]
EXCHANGE: dict[str, list[float]] = GIVEN["exchange"]
ITERATIONS = kit.published("cgdp", "table_2")
GPUS = (1, 2, 4)
STEP, RANGE, INTERVAL = GIVEN["step"], GIVEN["range"], GIVEN["interval"]
MIB = 2**20

TYPICAL_EXCHANGE = PHASES["broadcast"] + PHASES["gradients added up"]
"""The exchange of AlexNet in typical training on four GPUs."""

BACKWARD_SHARE = PHASES["backward"] / (PHASES["forward"] + PHASES["backward"] + PHASES["update"])


def rule(count: int, size: int) -> tuple[int, ...]:
    """Return chunks of a size from the last layer down, what is left over single: of nothing, the last chunk."""
    whole = count // size - (count % size == 0)
    return (size,) * whole + (1,) * (count - whole * size)


def groupings(count: int) -> Iterator[tuple[int, ...]]:
    """Yield all groupings of layers into consecutive chunks."""
    for cuts in product((False, True), repeat=count - 1):
        ends = [0, *(end for end, cut in enumerate((*cuts, True), 1) if cut)]
        yield tuple(end - start for start, end in pairwise(ends))


class Search(NamedTuple):
    """A run of Algorithm 1."""

    trials: list[
        tuple[int, int, float, int]
    ]  # iteration, size, time and best size so far of each size that was measured
    size: int  # the size taken
    stopped: int  # the iteration at which it stops
    last: int  # the size that ends it


def algorithm_1(measure: Callable[[int], float], step: int = STEP, reach: int = RANGE) -> Search:
    """Run Algorithm 1 as printed: the test after the iterations with a size, before it is measured."""
    size = best = 1
    trials: list[tuple[int, int, float, int]] = []
    least, iteration = math.inf, INTERVAL
    while size < best + step * reach:
        time = measure(size)
        if time < least:
            least, best = time, size
        trials.append((iteration, size, time, best))
        size += 1 if size < step else step
        iteration += INTERVAL
    return Search(trials, best, iteration, size)


@dataclass(frozen=True, kw_only=True)
class Training:
    """A network's training in the cost model, layers in the order of the backward phase."""

    backward: tuple[float, ...]  # the backward phase of each layer
    exchange: tuple[float, ...]  # the exchange of each layer's gradients in CGDP
    sync: float  # the synchronisation of a chunk
    alone: float  # an iteration on one GPU
    typical_exchange: float  # the exchange of typical training on four GPUs

    @property
    def layers(self) -> int:
        """The number of weighted layers."""
        return len(self.backward)

    @cached_property
    def sums(self) -> tuple[list[float], list[float]]:
        """The backward phase up to each place, and the exchanges up to it."""
        return [0.0, *accumulate(self.backward)], [0.0, *accumulate(self.exchange)]

    def span(self, start: int, end: int, number: int) -> float:
        """Return when the gradients of a chunk have arrived, the number-th of the backward phase."""
        ready, sent = self.sums
        return ready[end] + number * self.sync + sent[end] - sent[start]

    def spans(self, sizes: Sequence[int]) -> list[float]:
        """Return when each chunk has arrived, T_i of the paper."""
        ends = pairwise(accumulate(sizes, initial=0))
        return [self.span(*own, number) for number, own in enumerate(ends, 1)]

    def cgdp(self, size: int = 1) -> float:
        """Return an iteration of CGDP with chunks of a size on several GPUs."""
        return self.alone + self.overhead(rule(self.layers, size))

    def overhead(self, sizes: Sequence[int]) -> float:
        """Return T - T_BP, what the backward phase takes longer than on one GPU."""
        return max(self.spans(sizes)) - self.sums[0][-1]

    def typical(self, gpus: int = GPUS[-1]) -> float:
        """Return an iteration of typical training, whose exchange takes a round for each level of a binary tree."""
        return self.alone + self.typical_exchange * math.log2(gpus) / math.log2(GPUS[-1])

    def search(self, step: int = STEP, reach: int = RANGE) -> Search:
        """Search for a size by Algorithm 1."""
        return algorithm_1(self.cgdp, step, reach)


@cache
def parameters(network: str) -> tuple[int, ...]:
    """Return the parameters of each weighted layer from the last to the first, with those of normalisations behind it."""
    found: list[int] = []
    for layer in hypar.load_model(network).layers:
        if layer.weighted:
            found.append(0)
        if layer.num_parameters:
            found[-1] += layer.num_parameters
    return tuple(reversed(found))


@cache
def training(name: str, batch: int = 0, sync: float | None = None) -> Training:
    """Return a network's training with the fitted synchronisation, or another.

    AlexNet has the exchange of Table 4. Others exchange each byte at its rates, and their backward phase has its share of
    the iteration on one GPU; where Table 2 has none, GoogLeNet's multiply-adds in a second give it.
    """
    model, own = NETWORKS[name]["model"], NETWORKS[name]["batch"]
    graph, held = hypar.load_model(model), parameters(model)
    alex = parameters(NETWORKS["AlexNet"]["model"])
    if f"{name}, 1" in ITERATIONS:
        alone = ITERATIONS[f"{name}, 1"][0]
    else:
        other = NETWORKS["GoogLeNet-v1"]
        macs = hypar.load_model(other["model"]).macs(other["batch"])
        alone = ITERATIONS["GoogLeNet-v1, 1"][0] * graph.macs(batch or own) / macs
    parts = list(zip(*EXCHANGE.values(), strict=True))
    rate = math.fsum(map(math.fsum, parts)) / sum(alex)
    first = name == "AlexNet"
    whole = PHASES["backward"] if first else alone * BACKWARD_SHARE
    weighted = [layer for layer in reversed(graph.layers) if layer.weighted]
    return Training(
        backward=tuple(whole * layer.macs() / graph.macs() for layer in weighted),
        exchange=tuple(map(math.fsum, parts)) if first else tuple(rate * count for count in held),
        sync=fitted_sync() if sync is None else sync,
        alone=alone,
        typical_exchange=TYPICAL_EXCHANGE * sum(held) / sum(alex),
    )


@cache
def fitted_sync() -> float:
    """Return the synchronisation with which the layer-by-layer model gives the published backward phase of AlexNet.

    Each layer's span grows by one for each layer from the last to it, so the least that brings any span there is it.
    """
    free = training("AlexNet", sync=0.0)
    spans = free.spans(rule(free.layers, 1))
    return float(min((GIVEN["cgdp_backward"] - span) / number for number, span in enumerate(spans, 1)))


class Iteration(NamedTuple):
    """AlexNet's iteration on four GPUs by the cost model, from Table 3's phases of typical training."""

    typical: float
    cgdp: float  # with T in place of T'
    backward: float
    remaining: float


def iteration() -> Iteration:
    """Return AlexNet's iteration."""
    own = training("AlexNet")
    longest = max(own.spans(rule(own.layers, 1)))
    typical = sum(PHASES.values())
    cgdp = typical - PHASES["backward"] - TYPICAL_EXCHANGE + longest
    return Iteration(typical, cgdp, longest, longest - own.sums[0][-1] - own.layers * own.sync)


def chunks(sizes: Sequence[int]) -> str:
    """Write chunks as the paper does."""
    ends = pairwise(accumulate(sizes, initial=0))
    names = [range(sum(sizes) - start, sum(sizes) - end, -1) for start, end in ends]
    return ", ".join(f"({', '.join(map(str, own))})" for own in names)


def yes(holds: bool) -> str:
    """Write a truth value."""
    return "yes" if holds else "no"


def rules() -> kit.Result:
    count = GIVEN["rule_layers"]
    found = {size: rule(count, size) for size in range(1, count + 2)}
    rows = [(str(size), chunks(own), len(own)) for size, own in found.items()]
    return {"rows": rows, "three": len(GIVEN["three_chunks"]), "single": len(found[1])}


def proposition() -> kit.Result:
    counts = (1, 2, 3, 6, 8, 12)
    return {"rows": [(str(count), sum(len(own) > 1 for own in groupings(count))) for count in counts]}


def sizes_tried() -> kit.Result:
    found = algorithm_1(lambda size: abs(size - GIVEN["fastest"]))
    rows = [(str(at), size, time, best, "") for at, size, time, best in found.trials]
    return {"rows": [*rows, (str(found.stopped), found.last, None, found.size, "ends the search")],
            "stopped": found.stopped, "size": found.size}  # fmt: skip


def table_1() -> kit.Result:
    held = {name: parameters(network["model"])[::-1] for name, network in NETWORKS.items()}
    longest = max(map(len, held.values()))
    rows = [(name, len(own), sum(own) / 1e6, NETWORKS[name]["batch"]) for name, own in held.items()]
    series = {name: [*own, *[None] * (longest - len(own))] for name, own in held.items()}
    return {"rows": rows, "series": series, "x": range(1, longest + 1)}


def table_4() -> kit.Result:
    own, model = training("AlexNet"), hypar.load_model(NETWORKS["AlexNet"]["model"])
    names = [layer.name for layer in reversed(model.layers) if layer.weighted]
    held, spans = parameters(NETWORKS["AlexNet"]["model"]), own.spans(rule(own.layers, 1))
    rows = [
        (f"{own.layers - at}, {name}", held[at] / 1e6, own.backward[at],
         *(column[at] for column in EXCHANGE.values()), spans[at])
        for at, name in enumerate(names)
    ]  # fmt: skip
    rates = [4 * count / 1e6 / out for count, out in zip(held, EXCHANGE["copy out"], strict=True)]
    free = training("AlexNet", sync=0.0)
    return {
        "rows": rows, "sync": own.sync, "whole": max(spans), "critical": names[spans.index(max(spans))],
        "free": max(free.spans(rule(own.layers, 1))), "added": sum(EXCHANGE["accumulate"]),
        "least": min(rates), "most": max(rates), "x": names,
        "series": {"its backward phase has ended": own.sums[0][1:], "its gradients have arrived": spans},
    }  # fmt: skip


def table_3() -> kit.Result:
    found, own = iteration(), ITERATIONS["AlexNet, 4"]
    alex, typical = training("AlexNet"), PHASES["backward"] + TYPICAL_EXCHANGE
    rows = [
        ("broadcast", "given", ""),
        ("forward", "given", f"{PHASES['forward']}"),
        ("backward", "given", f"{found.backward - found.remaining:.2f}"),
        ("gradients that remain", "", f"{found.remaining:.3f}"),
        ("gradients added up", "given", ""),
        ("update", "given", f"{PHASES['update']}"),
        ("backward with exchange: T', T", f"{typical:.1f}", f"{found.backward:.1f}"),
        ("iteration", f"{found.typical:.1f}", f"{found.cgdp:.1f}"),
        ("times faster", "", f"{found.typical / found.cgdp:.3f}"),
    ]
    return {
        "rows": rows, "cgdp": found.cgdp, "off": found.cgdp / own[1] - 1, "one": PHASES["backward"] + sum(alex.exchange),
        "remaining": found.remaining, "copies": found.remaining - EXCHANGE["accumulate"][-1],
    }  # fmt: skip


def alexnet_chunks() -> kit.Result:
    own = training("AlexNet")
    ways = {f"size {size}": rule(own.layers, size) for size in range(1, own.layers + 1)}
    ways["best"] = min(groupings(own.layers), key=lambda sizes: (max(own.spans(sizes)), len(sizes)))
    return {
        "rows": [(name, chunks(sizes), max(own.spans(sizes))) for name, sizes in ways.items()],
        "size": own.search().size,
        "groupings": 2 ** (own.layers - 1),
    }


def table_2() -> kit.Result:
    rows: list[tuple[Any, ...]] = []
    for name in TIMED:
        own = training(name)
        for gpus in GPUS:
            known = ITERATIONS[f"{name}, {gpus}"]
            cgdp = own.cgdp() if gpus > 1 else own.alone
            typical = own.typical(gpus)
            rows.append(
                (
                    name,
                    gpus,
                    f"{typical:.1f}" if gpus > 1 else "given",
                    cgdp,
                    known[0] / known[1],
                    typical / cgdp,
                )
            )
    four, google = iteration(), training("GoogLeNet-v1")
    speeds = [{name: row[place] for name, gpus, *row in rows if gpus == GPUS[-1]} for place in (2, 3)]
    deep = google.cgdp() + (NETWORKS["GoogLeNet-v1"]["depth"] - google.layers) * google.sync
    ranked = [", ".join(sorted(own, key=own.__getitem__)) for own in speeds]
    columns = {"typical, published": [ITERATIONS[f"{name}, 4"][0] for name in TIMED],
               "typical, ours": [training(name).typical() for name in TIMED],
               "CGDP, published": [ITERATIONS[f"{name}, 4"][1] for name in TIMED],
               "CGDP, ours": [training(name).cgdp() for name in TIMED]}  # fmt: skip
    return {
        "rows": rows, "cgdp": four.cgdp, "speedup": four.typical / four.cgdp, "sync": google.sync,
        "layers": google.layers, "deep": deep, "published": ranked[0], "ours": ranked[1], "series": columns, "x": TIMED,
    }  # fmt: skip


def scaling(name: str, gpus: int) -> list[float]:
    """Return one GPU's iteration over that of several by Table 2, typical and CGDP."""
    return [
        one / several
        for one, several in zip(ITERATIONS[f"{name}, 1"], ITERATIONS[f"{name}, {gpus}"], strict=True)
    ]


def weak_scaling() -> kit.Result:
    rows = []
    for name in TIMED:
        own = training(name)
        for gpus in GPUS[1:]:
            typical, cgdp = scaling(name, gpus)
            rows.append((name, gpus, typical, own.alone / own.typical(gpus), cgdp, own.alone / own.cgdp()))
    return {"rows": rows, "four": [scaling(name, GPUS[-1])[1] for name in TIMED]}


def overheads(name: str) -> list[float | None]:
    """Return what four GPUs take longer than one by Table 2, CGDP and typical; nothing where it has no iterations."""
    if name not in TIMED:
        return [None, None]
    one, four = ITERATIONS[f"{name}, 1"], ITERATIONS[f"{name}, 4"]
    return [four[1] - one[1], four[0] - one[0]]


def condition() -> kit.Result:
    rows, each = [], []
    for name in NETWORKS:
        own, known = training(name), overheads(name)
        stalls, over = own.layers * own.sync, own.overhead((1,) * own.layers)
        rows.append((name, stalls, stalls + own.exchange[-1], over, known[0], own.typical_exchange, known[1],
                     yes(over < own.typical_exchange)))  # fmt: skip
        each += [f"{known[0] / own.layers:.2f} ms a layer for {name}"] if known[0] is not None else []
    return {"rows": rows, "each": ", ".join(each)}


def figure_2() -> kit.Result:
    own, together = training("ResNet-152", GIVEN["figure_2_batch"]), GIVEN["together"]
    typical, alone = together * own.typical(), together * own.alone
    curve = [together * own.cgdp(size) for size in range(1, GIVEN["figure_2_sizes"] + 1)]
    growing, (few, many) = (1, 2, 4, 6, 8), (51, 52)
    shown = (1, 2, 3, 4, 6, 8, 9, 10, 20, 31, 50, 75, 100)
    rows: list[tuple[Any, ...]] = [("one GPU", alone, None), ("typical", typical, typical / alone - 1)]
    return {
        "rows": [*rows, *((f"size {size}", curve[size - 1], curve[size - 1] / alone - 1) for size in shown)],
        "slower": yes(curve[0] > typical), "large": yes(curve[-1] > min(curve)),
        "falls": yes(all(curve[a - 1] > curve[b - 1] for a, b in pairwise(growing))),
        "fastest": curve.index(min(curve)) + 1, "layers": own.layers,
        "few": rule(own.layers, few).count(1), "many": rule(own.layers, many).count(1),
        "x": range(1, len(curve) + 1),
        "series": {"CGDP": curve, "typical": [typical] * len(curve), "one GPU": [alone] * len(curve)},
    }  # fmt: skip


def with_best(step: int, reach: int, best: int) -> Search:
    """Search on times with one fastest size and equal times for all others."""
    return algorithm_1(lambda size: float(size != best), step, reach)


def more_sizes(found: Search) -> int:
    """Return the number of sizes trained with after the best, that which ends the search included."""
    return len(found.trials) - [size for _, size, *_ in found.trials].index(found.size)


def figure_5() -> kit.Result:
    own, asked = training("ResNet-152"), GIVEN["searches"]
    published = kit.published("cgdp", "figure_5")
    found = {(step, reach): own.search(step, reach) for step, reach in asked}
    rows, ends = [], []
    bests = sorted(row[0] for row in published.values())
    for (step, reach), search in found.items():
        best = published.get(f"{step}, {reach}", [None])[0]
        known = None if best is None else with_best(step, reach, best)
        formula = None if best is None or best >= step else step - best + reach
        ends += [] if known is None else [len(known.trials) + 1]
        rows.append((step, reach, formula, known and more_sizes(known), known and known.stopped, search.size,
                     search.stopped, own.typical() / own.cgdp(search.size)))  # fmt: skip
    step, reach = asked[-1]
    late, largest = with_best(step, reach, bests[-1]), own.search().size
    longest = max(search.stopped for search in found.values()) // INTERVAL + 2
    lines = {}
    for (step, reach), search in found.items():
        tried = [*(size for _, size, *_ in search.trials), search.last]
        tried += [search.size] * (longest - len(tried))
        lines[f"({step}, {reach}, {search.size})"] = [own.cgdp(size) for size in tried]
    level = {"typical": own.typical(), "layer by layer": own.cgdp(), "one GPU": own.alone}
    return {
        "rows": rows, "most": max(ends), "late": len(late.trials) + 1, "late_best": late.size,
        "bests": ", ".join(map(str, bests)), "times": ", ".join(f"{own.cgdp(best):.0f}" for best in bests),
        "largest": largest, "single": rule(own.layers, largest).count(1), "layers": own.layers,
        "stalls": own.layers * own.sync / own.alone, "one": own.cgdp(), "typical": own.typical(),
        "found": own.cgdp(largest), "alone": own.alone,
        "x": [INTERVAL * place for place in range(1, longest + 1)],
        "series": {**lines, **{name: [value] * longest for name, value in level.items()}},
    }  # fmt: skip


def no_chunks() -> kit.Result:
    rows = []
    for name in NETWORKS:
        own = training(name)
        size = own.search().size
        one, found = own.cgdp(), own.cgdp(size)
        rows.append((name, size, one, found, 1 - found / one))
    return {"rows": rows, "google": training("GoogLeNet-v1").cgdp()}


def image_mb(network: str) -> float:
    """Return the memory of an image in Caffe: each tensor and its error, but where an op works in place."""
    graph = hypar.load_model(network)
    held = [layer for layer in graph.layers if layer.op_name not in {"relu", "dropout", "flatten"}]
    return 2 * sum(math.prod(layer.shape.values()) for layer in held) * graph.element_bytes / MIB


def saved_mb(count: int) -> float:
    """Return what CGDP saves: the first GPU of a tree of four has a buffer of all gradients for each of two children."""
    return math.log2(GPUS[-1]) * 4 * count / MIB


def table_5() -> kit.Result:
    rows: list[tuple[Any, ...]] = []
    published = kit.published("cgdp", "table_5")
    for name in TIMED:
        model, batch = NETWORKS[name]["model"], NETWORKS[name]["batch"]
        count = hypar.load_model(model).num_parameters
        kept = batch * image_mb(model) + 3 * 4 * count / MIB
        rows.append((name, kept, saved_mb(count)))
        if name == "GoogLeNet-v1":
            more = sum((read + 1) * written for layers in GIVEN["auxiliary"] for read, written in layers)
            rows.append((f"{name}, with its two classifiers", None, saved_mb(count + more)))
    image, more = image_mb("vgg16"), rows[-1][2]
    few, many = GIVEN["batches_of_vgg"]
    typical, cgdp, *_ = published["VGGNet-16"]
    held = NETWORKS["VGGNet-16"]["batch"]
    return {
        "rows": rows, "image": image, "more": math.floor(more / image), "exact": more / image,
        "typical": typical + (few - held) * image, "cgdp": cgdp + (many - held) * image,
    }  # fmt: skip


def long_run() -> kit.Result:
    run, found = GIVEN["long_run"], iteration()

    def minutes(one: float, count: int) -> float:
        return float(count * one / 1e3 + count // run["test_every"] * run["test_s"]) / 60

    known, ours = ITERATIONS["AlexNet, 4"], (found.typical, found.cgdp)
    rows = [
        (name, minutes(one, run["iterations"]), minutes(one, run["reached"]), minutes(own, run["iterations"]))
        for name, one, own in zip(("typical", "CGDP"), known, ours, strict=True)
    ]
    test = run["test_images"] / NETWORKS["AlexNet"]["batch"] * PHASES["forward"] / 1e3
    return {"rows": rows, "faster": rows[0][3] / rows[1][3], "test": test}
