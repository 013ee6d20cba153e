"""DeePa (2018): its tables and figures, on the cluster of its section 7.3."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from itertools import groupby, product
from typing import TYPE_CHECKING, Any, NamedTuple

import kit

import hypar

if TYPE_CHECKING:
    from collections.abc import Mapping

GIVEN = kit.given("deepa")
ALEXNET, NETWORKS = "alexnet-2014", ("alexnet-2014", "vgg16", "inception-v3")
BATCH, WAYS, COUNTS = 512, 16, (1, 2, 4, 8, 16)
POWERS = (16, 8, 4, 2, 1)
TIMED: dict[str, Any] = {"batch": 128, "ways": 4}
"""Figure 15."""

Grid = tuple[int, int, int, int]
"""Degrees of the batch, the output channels, the height and the width."""


class Cut(NamedTuple):
    """A way to cut a network: its name in tables, the space, the mode of the cost ``deepa``, and fixed choices."""

    name: str
    space: str = "batch*out_channels*height*width"
    mode: str = "exact"
    pins: tuple[str, ...] = ()


IMAGE, OWT = Cut("image", space="batch"), Cut("owt", space="conv:batch linear:out_channels")
SERIAL, EXACT = Cut("deepa, serial", mode="serial"), Cut("deepa, exact")
TIMELINE = Cut("published", pins=("*=n4", "fc*=c2"))
THREE = (IMAGE, OWT, EXACT)
PUBLISHED = {name: Cut("deepa, published", pins=tuple(pins)) for name, pins in GIVEN["published"].items()}


@cache
def graph(name: str, batch: int = BATCH, classes: int = 0) -> hypar.LayerGraph:
    """Load a network; ``alexnet-2014`` has the widths of Krizhevsky (2014)."""
    found = hypar.load_model("alexnet" if name == ALEXNET else name, batch=batch)
    fields = (
        {layer: {"out_channels": own} for layer, own in GIVEN["widths"].items()} if name == ALEXNET else {}
    )
    if classes:
        fields[next(layer.name for layer in reversed(found.layers) if layer.op_name == "linear")] = {
            "out_features": classes
        }
    return found.with_fields(fields, name=name)


@cache
def machine(overlap: str = "none") -> hypar.Machine:
    """Load the cluster, with transfers after computation or beside it."""
    machine: hypar.Machine = hypar.load_machine("p100-4x4", {"overlap": overlap})
    return machine


@cache
def plan(
    name: str, cut: Cut, *, batch: int = BATCH, ways: int = WAYS, overlap: str = "none", classes: int = 0
) -> hypar.Plan:
    """Plan a network on one level; a level of two of which one works stands for one device."""
    return planned(
        graph(name, batch, classes), cut if ways > 1 else Cut("one", pins=("*=batch1",)), ways, overlap
    )


def planned(own: hypar.LayerGraph, cut: Cut, ways: int = WAYS, overlap: str = "none") -> hypar.Plan:
    """Plan any network so."""
    return hypar.plan_model(
        own, array=[max(ways, 2)], strategy="deepa", space=cut.space, mode=cut.mode, pins=cut.pins,
        hardware=machine(overlap), convention="paper",
    )  # fmt: skip


def score(name: str, cut: Cut, **asked: Any) -> hypar.Score:
    """Return the engine's score of a plan."""
    return kit.scored(plan(name, cut, **asked))


def speed(name: str, cut: Cut, batch: int = BATCH, **asked: Any) -> float:
    """Return the images a second by the engine, transfers beside computation unless asked otherwise."""
    return batch / score(name, cut, batch=batch, **{"overlap": "full", **asked}).time_s


def word(grid: Grid) -> str:
    """Write a choice as DeePa does."""
    batch, channels, height, width = grid
    return f"n{batch} c{channels}" + (f" h{height} w{width}" if height * width > 1 else "")


def grids(found: hypar.Plan) -> dict[str, Grid]:
    """Return the choice of each layer."""
    named = {layer: dict(found.choices(layer)[0].degrees) for layer in found.layers}
    return {
        layer: (
            own.get("batch", 1),
            math.prod(own.get(dim, 1) for dim in ("out_channels", "channels", "groups")),
            own.get("height", 1),
            own.get("width", 1),
        )
        for layer, own in named.items()
    }


def options(shape: Mapping[str, int], ways: int = WAYS) -> list[Grid]:
    """Return all choices of a layer: powers of two, within its sizes and the devices."""
    most = (BATCH, shape["channels"], shape.get("height", 1), shape.get("width", 1))
    return [
        (batch, channels, height, width)
        for batch, channels, height, width in product(POWERS, repeat=4)
        if batch * channels * height * width <= ways
        and all(own <= size for own, size in zip((batch, channels, height, width), most, strict=True))
    ]


@cache
def alone(name: str, layer: str) -> hypar.LayerGraph:
    """Build a network of one layer."""
    own = next(one for one in graph(name).layers if one.name == layer)
    op = {"name": "layer", "op": own.op_name, **own.op.model_dump(by_alias=True, exclude_defaults=True)}
    source = {"op": "input", **own.input_shapes[0]}
    return hypar.load_model({"source": name, "batch": BATCH, "layers": [source, op]}, name="layer")


def table_1() -> kit.Result:
    rows = []
    for row, (name, layers) in GIVEN["table_1"].items():
        for layer in layers:
            own = next(one for one in graph(name).layers if one.name == layer)
            (read,), made, kernel = own.input_shapes, own.shape, max(own.op.model_dump()["kernel"])
            sizes = f"{read['channels']} to {made['channels']}, {made['height']}x{made['width']}, {kernel}x{kernel}"
            rows.append((row, name, layer, sizes))
    return {"rows": rows}


def figure_1() -> kit.Result:
    rows: list[tuple[Any, ...]] = []
    for row, (name, layers) in GIVEN["table_1"].items():
        own = alone(name, layers[-1])
        seconds = {}
        for grid in options(own.layers[-1].shape):
            if math.prod(grid) == WAYS:
                found = planned(own, Cut("pinned", pins=(f"*={word(grid)}",)))
                seconds[grid] = math.fsum(
                    one.get("time_s", 0.0) for one in hypar.score_layers(found, hardware=machine(), model=own)
                )
        worst, best = (pick(seconds, key=seconds.__getitem__) for pick in (max, min))
        ratios = [seconds[worst] / seconds[grid] for grid in ((WAYS, 1, 1, 1), best)]
        alike = ratios[1] < 1.005
        rows.append((row, *(("all alike",) * 2 if alike else (word(worst), word(best))), *ratios))
    series = {"worst": [1.0] * len(rows), "image": [row[3] for row in rows], "best": [row[4] for row in rows]}
    return {"rows": rows, "series": series, "x": list(GIVEN["table_1"])}


def figure_2() -> kit.Result:
    weighted = [layer.name for layer in graph("inception-v3").layers if layer.weighted]
    rows, series = [], {}
    for name in ("Conv2d_2b_3x3.conv", weighted[len(weighted) // 2], "fc"):
        own = alone("inception-v3", name)
        exact = [
            planned(own, Cut("one", pins=(f"*=n{count}" if count > 1 else "*=batch1",)), count).cost.value
            for count in COUNTS
        ]
        held = 4 * weights(own.layers[-1])
        links = [
            machine().links((max(count, 2),))[0].lines["neighbours"][-1].seconds_per_byte for count in COUNTS
        ]
        sent = [count * held * each * (count > 1) for count, each in zip(COUNTS, links, strict=True)]
        estimated = [exact[0] / count + update for count, update in zip(COUNTS, sent, strict=True)]
        for words, times in (("by the engine", exact), ("as estimated", estimated)):
            rows.append((name, words, *(1e3 * time for time in times), COUNTS[times.index(min(times))]))
            series[f"{name}, {words}"] = [1e3 * time for time in times]
    return {"rows": rows, "series": series, "x": COUNTS}


def weights(layer: Any) -> int:
    """Return the elements of a layer's weight, without its bias."""
    bias = layer.shape["channels"] if layer.op.model_dump().get("bias") else 0
    return int(layer.num_parameters - bias)


def figure_7() -> kit.Result:
    rows: list[tuple[Any, ...]] = []
    cuts = (IMAGE, OWT, EXACT, SERIAL)
    speeds = {(name, cut): speed(name, cut) for name in NETWORKS for cut in cuts}
    for (name, cut), together in speeds.items():
        after = speed(name, cut, overlap="none")
        ratio = together / speeds[name, IMAGE] if cut in {OWT, EXACT} else None
        rows.append((name, cut.name, after, together, together / after - 1, ratio))
    series = {cut.name: [speeds[name, cut] for name in NETWORKS] for cut in cuts}
    return {"rows": rows, "series": series, "x": NETWORKS}


def figure_8() -> kit.Result:
    rows = []
    for name in (*NETWORKS, "alexnet"):
        own = [score(name, cut).communication_bytes / 1e9 for cut in (IMAGE, OWT, SERIAL, EXACT)]
        image, owt, serial, exact = own
        rows.append((name, *own, image / owt, owt / serial, owt / exact, image / serial))
    return {"rows": rows}


def short(number: float) -> str:
    """Write a number of Tables 2 and 3 in the paper's digits."""
    digits = "0.01" if 0 < number < 2 else "0.1" if number < 1000 else "1"
    return str(Decimal(str(round(number, 9))).quantize(Decimal(digits), ROUND_HALF_UP))


def table(number: str) -> kit.Result:
    asked = GIVEN["tables"][number]
    name, layers = asked["layers"]
    own = next(layer for layer in graph(name).layers if layer.name == layers[0])

    def parts(grid: Grid) -> tuple[float, float, float]:
        copies = math.prod(grid) // grid[1]
        compute = asked["measured"].get(word(grid), asked["whole"] / math.prod(grid))
        sent = 0 if grid == (WAYS, 1, 1, 1) else grid[1] * asked["send"]
        return sent, compute, copies * asked["weight"] if copies > 1 else 0

    totals = {word(grid): (parts(grid), math.fsum(parts(grid))) for grid in options(own.shape)}
    least = min(total for _, total in totals.values())
    best = next(choice for choice, (_, total) in totals.items() if total == least)
    published = kit.published("deepa", f"table {number}")
    over = [
        f"{choice} costs {totals[choice][1] / least:.1f} times the best"
        for choice in published
        if choice in {word(grid) for grid in options(own.shape) if math.prod(grid) == WAYS}
    ]
    read = math.prod(own.input_shapes[0].values()) * BATCH
    rates = [4 * count / 1e6 / asked[what] for count, what in ((read, "send"), (weights(own), "weight"))]
    flop = 6 * own.macs(BATCH) / 1e9 / asked["whole"]
    return {
        "rows": [(choice, *map(short, (*totals[choice][0], totals[choice][1]))) for choice in published],
        "options": len(totals), "best": best, "over": ", ".join(over), "send": rates[0], "weight": rates[1],
        "flop": flop, "weights": len(layers) * rates[1], "flops": len(layers) * flop,
        "printed": min(published, key=lambda choice: float(published[choice][3])),
    }  # fmt: skip


def estimated(found: hypar.Plan) -> dict[str, Grid]:
    """Return the choices of least cost by the letter of Equation 1, mode ``paper`` for a whole network.

    Between equal choices nothing moves, a weight without copies is not sent, and computation is shared by all devices:
    with all channels divided alike each term is as small as it can be.
    """
    return dict.fromkeys(found.layers, (1, WAYS, 1, 1))


def configuration(name: str) -> kit.Result:
    own = [PUBLISHED[name]] if name in PUBLISHED else []
    cuts = {cut.name: plan(name, cut) for cut in (*own, SERIAL, EXACT)}
    found = {words: grids(one) for words, one in cuts.items()}
    layers = list(found["deepa, exact"])
    every = (*found.values(), estimated(cuts["deepa, exact"]))
    columns = [[word(one[layer]) for layer in layers] for one in every]
    if name not in PUBLISHED:
        columns.insert(0, ["only drawn"] * len(layers))
    rows = []
    for same, run in groupby(zip(layers, zip(*columns, strict=True), strict=True), key=lambda pair: pair[1]):
        names = [layer for layer, _ in run]
        rows.append((names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", *same))
    series = {words: [math.prod(one[layer]) for layer in layers] for words, one in found.items()}
    return {"rows": rows, "series": series, "x": layers}


def costs() -> kit.Result:
    rows = []
    for name in NETWORKS:
        cuts = (IMAGE, OWT, *([PUBLISHED[name]] if name in PUBLISHED else []), SERIAL, EXACT)
        found = {}
        for cut in cuts:
            pins = tuple(f"{layer}={word(grid)}" for layer, grid in grids(plan(name, cut)).items())
            held = plan(name, Cut(f"{cut.name}, held", mode="serial", pins=pins))
            found[cut] = held.cost.value, score(name, cut).time_s
        for cut, own in found.items():
            over = (trick / one for trick, one in zip(found[OWT], own, strict=True))
            rows.append((name, cut.name, *(1e3 * one for one in own), *over))
    return {"rows": rows}


def figure_13() -> kit.Result:
    rows = []
    series: dict[str, list[float]] = {}
    for name in NETWORKS:
        image, owt, own = ([speed(name, cut, batch) for batch in GIVEN["batches"]] for cut in THREE)
        series |= {f"{name}, {cut.name}": one for cut, one in zip(THREE, (image, owt, own), strict=True)}
        rows.append((name, *(one / other for one, other in zip(own, image, strict=True))))
    return {"rows": rows, "series": series, "x": GIVEN["batches"]}


def figure_14() -> kit.Result:
    rows: list[tuple[Any, ...]] = []
    series: dict[str, list[float]] = {}
    for name in NETWORKS:
        for cut in THREE:
            own = [speed(name, cut, BATCH // WAYS * count, ways=count) for count in COUNTS]
            series[f"{name}, {cut.name}"] = own
            image = series[f"{name}, {IMAGE.name}"]
            rows.append((name, cut.name, *own, own[-1] / own[0], own[2] / image[2], own[4] / image[4]))
    return {"rows": rows, "series": series, "x": COUNTS}


def moved(name: str, cut: Cut, *phases: str, **asked: Any) -> float:
    """Return the bytes that all devices receive in some phases of a step."""
    rows = hypar.score_layers(
        plan(name, cut, **asked), hardware=machine(), model=graph(name, asked.get("batch", BATCH), asked.get("classes", 0))
    )  # fmt: skip
    return math.fsum(sent["bytes"] for row in rows if row["phase"] in phases for sent in row["transfers"])


READINGS = {"moved": ("forward", "backward", "gradient"), "forward only": ("forward", "gradient")}


def figure_15() -> kit.Result:
    rows = [
        (name, *(moved("vgg16", cut, *phases, **TIMED) / 1e6 for cut in (IMAGE, TIMELINE, SERIAL)))
        for name, phases in READINGS.items()
    ]
    return {"rows": rows}


def figure_15_times() -> kit.Result:
    rows = [
        (cut.name, *(score("vgg16", cut, overlap=overlap, **TIMED).time_s for overlap in ("none", "full")))
        for cut in (IMAGE, TIMELINE)
    ]
    step_s = kit.published("deepa", "figure_15_times")["published"]
    flop = 6 * graph("vgg16").macs(TIMED["batch"]) / TIMED["ways"] / step_s
    return {"rows": rows, "published": flop / 1e12, "ours": machine().flop_per_s(4) / 1e12}


def figure_16() -> kit.Result:
    rows = []
    more = GIVEN["classes"]
    keys = [f"{cut.name}, {data}" for cut in (IMAGE, SERIAL) for data in ("1K", "22K")]
    series: dict[str, list[float]] = {key: [] for key in keys}
    for name in NETWORKS:
        for reading, phases in READINGS.items():
            image, own = (
                [moved(name, cut, *phases, classes=classes) / 1e9 for classes in (0, more)]
                for cut in (IMAGE, SERIAL)
            )
            gained = image[1] - image[0], own[1] - own[0]
            rows.append((name, reading, image[1], gained[0], own[1], 1e3 * gained[1], image[1] / own[1]))
            if reading == "moved":
                for key, one in zip(series, (*image, *own), strict=True):
                    series[key].append(one)
    return {"rows": rows, "one": BATCH * (more - 1000) * 4 / 1e6, "series": series, "x": NETWORKS}


def figure_16_speeds() -> kit.Result:
    rows = []
    for name in NETWORKS:
        for cut in (IMAGE, EXACT):
            before, after = (speed(name, cut, classes=classes) for classes in (0, GIVEN["classes"]))
            rows.append((name, cut.name, before, after, 1 - after / before))
    return {"rows": rows}
