"""HyPar (HPCA 2019): its tables and figures on the machine ``hmc``, and some of them on ``hmc-physical``."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import amounts
import kit

import hypar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

GIVEN = kit.given("hypar")
SPEED, TORUS_SPEED = (
    kit.published("hypar", "summary")[name]
    for name in ("performance, mean of ten", "performance on a torus, mean")
)
NETWORKS: list[str] = GIVEN["networks"]
EIGHT = [name for name in NETWORKS if name not in {"sfc", "sconv"}]
LARGE = [name for name in NETWORKS if name.startswith(("alexnet", "vgg"))]
LEVELS = 4
CUBES = 1 << LEVELS
SIZES = [1 << level for level in range(7)]
DIMS = {"dp": "batch", "mp": "in_channels"}
WORDS = {dim: word for word, dim in DIMS.items()}


class Run(NamedTuple):
    """The ten networks planned and scored in one way."""

    hardware: str = "hmc"  # the machine
    weight: float = 0.5  # weight of the bytes between layers in every cost
    convention: str = "paper"  # how plans count bytes
    counted: str = ""  # how scores do, if otherwise
    dtype: str | None = None  # number format, if not the networks' own
    changes: str = "{}"  # changes of the machine, as JSON
    optimizer: str = "sgd"  # the optimizer of scores

    @property
    def machine(self) -> hypar.Machine:
        """The machine with its changes."""
        return machine(self.hardware, self.changes)

    @property
    def by(self) -> str:
        """The convention of scores."""
        return self.counted or self.convention

    def on(self, changes: Mapping[str, Any]) -> Run:
        """Return the same on a changed machine."""
        return self._replace(changes=json.dumps(changes))

    def graph(self, name: str) -> hypar.LayerGraph:
        """Return a network."""
        return graph(name, self.dtype)

    def plan(self, name: str, strategy: str = "hypar") -> hypar.Plan:
        """Return a plan."""
        return plan(name, strategy, self.weight, self.convention, self.dtype)

    def score(self, name: str, strategy: str = "hypar") -> hypar.Score:
        """Return the score of such a plan."""
        return score(self, name, strategy)

    def over_dp(self, quantity: str = "time_s", strategy: str = "hypar") -> dict[str, float]:
        """Return the ratio of dp's time, or energy, to each network's."""
        scores = {name: (self.score(name, "dp"), self.score(name, strategy)) for name in NETWORKS}
        return {name: getattr(dp, quantity) / getattr(own, quantity) for name, (dp, own) in scores.items()}


PUBLISHED = Run()
SAME = Run(hardware="hmc-physical", dtype="bfloat16")
"""The same plans in 16-bit words on the other machine."""

MOVED = SAME._replace(weight=1.0, convention="moved")
"""HyPar's search there for what moves."""

TORUS, ORDERED = (
    {"topology": {"name": "torus", "routing": own}} for own in ("balanced", "dimension_ordered")
)


@cache
def machine(hardware: str, changes: str) -> hypar.Machine:
    """Load a machine."""
    machine: hypar.Machine = hypar.load_machine(hardware, json.loads(changes))
    return machine


@cache
def graph(name: str, dtype: str | None) -> hypar.LayerGraph:
    """Load a network."""
    found = hypar.load_model(name)
    return found if dtype is None else found.with_fields({}, dtype=dtype)


@cache
def plan(name: str, strategy: str, weight: float, convention: str, dtype: str | None) -> hypar.Plan:
    """Plan a network."""
    return hypar.plan_model(
        graph(name, dtype), levels=LEVELS, strategy=strategy, inter_weight=weight, convention=convention
    )


@cache
def score(run: Run, name: str, strategy: str) -> hypar.Score:
    """Score a plan."""
    return hypar.score_plan(
        run.plan(name, strategy), hardware=run.machine, model=run.graph(name), optimizer=run.optimizer,
        convention=run.by,
    )  # fmt: skip


def watts(found: hypar.Score) -> float:
    """Return the power of a cube, on average over a step."""
    return (found.energy_j or 0.0) / found.time_s / CUBES


def mean(ratios: Mapping[Any, float]) -> float:
    """Return the geometric mean over the networks."""
    return kit.geometric_mean(list(ratios.values()))


def over_torus(run: Run, wired: Run) -> dict[str, float]:
    """Return the speedups of HyPar's plans on other links over dp on the tree."""
    return {name: run.score(name, "dp").time_s / wired.score(name).time_s for name in NETWORKS}


def bytes_say(name: str, strategy: str = "hypar") -> str:
    """State the ratio of dp's communication time to a strategy's: no faster computation gives more."""
    spent = [PUBLISHED.score(name, own).time["communication"] for own in ("dp", strategy)]
    return f"communication alone gives {spent[0] / spent[1]:.2f}"


def summary() -> kit.Result:
    speed, energy = PUBLISHED.over_dp(), PUBLISHED.over_dp("energy_j")
    mp_speed, mp_energy = PUBLISHED.over_dp(strategy="mp"), PUBLISHED.over_dp("energy_j", "mp")
    least, most = (pick(EIGHT, key=speed.__getitem__) for pick in (min, max))
    thrifty, greedy = (pick(EIGHT, key=energy.__getitem__) for pick in (min, max))
    lead = "; see Figure 8 fused"
    rows = [
        ("performance, mean of ten", mean(speed), "", ""),
        ("performance, SFC", speed["sfc"], "", bytes_say("sfc") + lead),
        ("performance, mp on SFC", mp_speed["sfc"], "", bytes_say("sfc", "mp") + lead),
        ("performance, SCONV", speed["sconv"], "", "the plans are the same"),
        ("performance, Lenet-c", speed["lenet-c"], "", bytes_say("lenet-c")),
        ("performance, VGG-A", speed["vgg-a"], "", ""),
        ("performance, least of the other eight", speed[least], least, bytes_say(least) + lead),
        ("performance, most of the other eight", speed[most], most, "see Figure 6"),
        ("energy, mean of ten", mean(energy), "", ""),
        ("energy, SFC", energy["sfc"], "", "more with more accesses a word moved, see Assumptions"),
        ("energy, mp on SFC", mp_energy["sfc"], "", "as SFC"),
        ("energy, least of the other eight", energy[thrifty], thrifty, ""),
        ("energy, most of the other eight", energy[greedy], greedy, "see Figure 7"),
        ("performance on a torus, mean", mean(over_torus(PUBLISHED, PUBLISHED.on(TORUS))), "", "over dp on the H-tree"),
    ]  # fmt: skip
    return {"rows": rows}


def counts() -> kit.Result:
    weighted = {name: PUBLISHED.graph(name).num_weighted for name in NETWORKS}
    (links,) = PUBLISHED.on({"bandwidth": "link"}).machine.tiers
    rows = [
        ("operations of AlexNet on an image, 10^9", f"{PUBLISHED.graph('alexnet').macs() / 1e9:.1f}"),
        ("weighted layers, fewest", str(min(weighted.values()))),
        ("weighted layers, most", str(max(weighted.values()))),
        ("plans of Lenet-c", f"{2 ** (LEVELS * weighted['lenet-c']):,}"),
        ("plans of VGG-A, 10^12", f"{2 ** (LEVELS * weighted['vgg-a']) / 1e12:.1f}"),
        ("Gop/s of a processing unit", f"{PUBLISHED.machine.compute.flop_per_s(1) / 1e9:.1f}"),
        ("Gb/s of all links", f"{8 * links.devices * links.bytes_per_s / 1e9:.1f}"),
    ]
    return {"rows": rows}


def alone(layer: str, batch: int, dtype: str | None = None) -> hypar.LayerGraph:
    """Build a network of one layer of the paper's examples or of VGG-E."""
    source, op = GIVEN["layers"][layer]
    layers = [{"op": "input", **source}, {"name": layer, **op}]
    said = {"source": "one layer", "batch": batch, "layers": layers}
    return hypar.load_model(said if dtype is None else {**said, "dtype": dtype}, name=layer)


def examples() -> kit.Result:
    rows = []
    for layer, words in (("fc", "fully connected, 70 to 100"), ("conv", "convolution, 12x12x20 to 8x8x50")):
        for strategy in DIMS:
            cost = hypar.plan_model(alone(layer, 32), levels=1, strategy=strategy, convention="paper").cost
            rows.append((f"kB, {words}, {strategy}", f"{cost.value / 1e3:g}"))
    for strategy, dim in DIMS.items():
        sums = amounts.inside(dim)
        for phase, tensor in (("gradient", "dW"), ("forward", "F")):
            rows.append((f"Table 1, {strategy}, A({tensor})", f"{sums.get(phase, 0):g}"))
    for made, read in (("dp", "dp"), ("dp", "mp"), ("mp", "mp"), ("mp", "dp")):
        for tensor, part in zip("FE", amounts.between(DIMS[made], DIMS[read]), strict=True):
            rows.append((f"Table 2, {made}-{read}, A({tensor})", str(Fraction(part))))
    return {"rows": rows}


def inference() -> kit.Result:
    moved = {
        (name, strategy): sum(
            sent["bytes"]
            for row in hypar.score_layers(PUBLISHED.plan(name, strategy), hardware=PUBLISHED.machine, convention="paper")
            if row["phase"] == "forward"
            for sent in row["transfers"]
        ) / 1e9
        for name in NETWORKS
        for strategy in ("dp", "mp", "hypar")
    }  # fmt: skip
    rows = [(name, *(moved[name, strategy] for strategy in ("dp", "mp", "hypar"))) for name in NETWORKS]
    return {
        "rows": rows,
        "none": sum(not row[1] for row in rows),
        "own": " and ".join(row[0] for row in rows if not row[3]),
    }


def figure_5() -> kit.Result:
    rows, large = [], []
    for name in NETWORKS:
        found = PUBLISHED.plan(name)
        dims = {layer: found.dims(layer) for layer in found.layers}
        codes = ["".join("01"[own[level] == DIMS["mp"]] for own in dims.values()) for level in range(LEVELS)]
        rows.append((name, *codes))
        kinds = {layer.name: layer.op_name for layer in PUBLISHED.graph(name).layers}
        large += [(kinds[layer], dim) for layer in dims if name in LARGE for dim in dims[layer]]

    def usual(op_name: str, dim: str) -> float:
        own = [found for kind, found in large if kind == op_name]
        return own.count(dim) / len(own)

    full = PUBLISHED._replace(weight=1.0)
    others = [name for name in NETWORKS if choices(full.plan(name)) != choices(PUBLISHED.plan(name))]
    return {
        "rows": rows, "conv": usual("conv", DIMS["dp"]), "linear": usual("linear", DIMS["mp"]),
        "both": sum(len({*"".join(row[1:])}) == 2 for row in rows), "others": ", ".join(others),
    }  # fmt: skip


def choices(found: hypar.Plan) -> list[tuple[str | None, ...]]:
    """Return the dim of each layer at each level."""
    return [found.dims(layer) for layer in found.layers]


def with_mean(*columns: Mapping[str, float]) -> list[tuple[Any, ...]]:
    """Return a row for each network and one for the mean."""
    rows = [(name, *(own[name] for own in columns)) for name in NETWORKS]
    return [*rows, ("mean", *map(mean, columns))]


def figure_6() -> kit.Result:
    def sent(name: str, strategy: str) -> float:
        found = PUBLISHED.score(name, strategy)
        return found.time["communication"] / found.time_s

    own = PUBLISHED.graph("alexnet")
    linear = [layer for layer in own.layers if layer.op_name == "linear"]
    return {
        "rows": with_mean(PUBLISHED.over_dp(strategy="mp"), PUBLISHED.over_dp()),
        "weights": sum(layer.num_parameters for layer in linear) / own.num_parameters,
        "work": sum(layer.macs() for layer in linear) / own.macs(),
        "alexnet": sent("alexnet", "dp"),
        "sfc": sent("sfc", "dp"), "sfc_own": sent("sfc", "hypar"),
    }  # fmt: skip


def saved(run: Run, name: str) -> dict[str, float]:
    """Return each item's fraction of the energy that HyPar saves over dp."""
    before, after = (run.score(name, strategy).energy or {} for strategy in ("dp", "hypar"))
    less = {item: before[item] - after[item] for item in before}
    return {item: own / sum(less.values()) for item, own in less.items()}


def figure_7() -> kit.Result:
    return {
        "rows": with_mean(PUBLISHED.over_dp("energy_j", "mp"), PUBLISHED.over_dp("energy_j")),
        "samples": PUBLISHED.graph("alexnet").batch // CUBES,
        "saved": [saved(PUBLISHED, name) for name in ("lenet-c", "alexnet")],
    }


def figure_8() -> kit.Result:
    def moved(strategy: str, counted: str) -> dict[str, float]:
        run = PUBLISHED._replace(counted=counted)
        return {name: run.score(name, strategy).communication_bytes / 1e9 for name in NETWORKS}

    found = {strategy: moved(strategy, "paper") for strategy in ("dp", "mp", "hypar")}
    others = [moved(strategy, counted) for strategy in ("mp", "hypar") for counted in ("moved", "fused")]
    spans = {}
    for word, (more, less) in {"mp": ("mp", "dp"), "dp": ("dp", "hypar")}.items():
        ratios = [found[more][name] / found[less][name] for name in LARGE]
        spans[word] = f"{min(ratios):.1f} to {max(ratios):.1f}"
    return {"rows": with_mean(*found.values(), *others), **spans}


def explored(run: Run, name: str, vary: Sequence[str]) -> hypar.Exploration:
    """Explore some choices of HyPar's plan of a network."""
    return hypar.explore_model(
        run.graph(name), vary=vary, hardware=run.hardware, levels=LEVELS, inter_weight=run.weight,
        convention=run.by,
    )  # fmt: skip


def code(point: Any) -> str:
    """Return the free choices of a point as 0 for dp and 1 for mp, a group a layer or a level."""
    text = "".join("01"[DIMS["mp"] in choice.divided] for choice in point.axes.values())
    return " ".join(text[start : start + LEVELS] for start in range(0, len(text), LEVELS))


def space(found: hypar.Exploration, name: str, wanted: Sequence[str] = ()) -> kit.Result:
    """Return the peak of a space, some of its points, and HyPar's own."""
    best = found[0]
    picked = [("published peak", point) for point in found if code(point) in wanted]
    picked += [("HyPar's plan", point) for point in found if point.own]
    rows = [(f"{words}, {code(point)}", found.speedup(point)) for words, point in picked]
    times = sorted(1e3 * point.totals.time_s for point in found if point.totals)
    return {
        "rows": [(f"peak, {name} = {code(best)}", found.speedup(best)), *rows], "points": len(found),
        "series": {"time": times}, "x": range(1, len(times) + 1),
    }  # fmt: skip


def figure_9() -> kit.Result:
    return space(explored(PUBLISHED, "lenet-c", ("*@H1", "*@H4")), "H1 H4")


def figure_10() -> kit.Result:
    return space(explored(PUBLISHED, "vgg-a", ("conv5_2", "fc1")), "conv5_2 fc1", ["1000 1111"])


@cache
def scaled(run: Run, bandwidth: str = "total") -> dict[str, list[hypar.Run]]:
    """Score VGG-A by dp and by HyPar on 1 to 64 devices."""
    runs = hypar.sweep_model(
        run.graph("vgg-a"), hardware=run.hardware, levels=range(7), strategy=("dp", "hypar"), scale=True,
        changes={"bandwidth": [bandwidth]}, inter_weight=run.weight, convention=run.by,
    )  # fmt: skip
    return {
        strategy: [own for own in runs if own.axes["strategy"] == strategy] for strategy in ("dp", "hypar")
    }


def column(runs: Iterable[hypar.Run], quantity: str) -> list[float]:
    """Return a total of each run."""
    return [float(getattr(own.totals, quantity)) for own in runs]


def faster(runs: Iterable[hypar.Run]) -> list[float]:
    """Return how many times faster each is than the first."""
    times = column(runs, "time_s")
    return [times[0] / own for own in times]


def peak(values: Sequence[float]) -> int:
    """Return the number of devices at which a curve is highest."""
    return SIZES[values.index(max(values))]


def scaling_rows(series: Sequence[Sequence[float]]) -> list[tuple[Any, ...]]:
    """Return a row for each number of devices, and one of the peaks."""
    rows = [(str(size), *(f"{own[at]:.2f}" for own in series)) for at, size in enumerate(SIZES)]
    return [*rows, ("fastest at", *(str(peak(own)) for own in series))]


def figure_11() -> kit.Result:
    series = [faster(own) for bandwidth in ("total", "link") for own in scaled(PUBLISHED, bandwidth).values()]
    moved = column(scaled(PUBLISHED)["hypar"], "communication_bytes")
    return {
        "rows": scaling_rows(series), "dp": peak(series[0]), "own": peak(series[1]),
        "eight": series[0][3] / max(series[0]), "grown": moved[5] / moved[4], "most": SIZES[-1],
    }  # fmt: skip


def figure_11_right() -> kit.Result:
    dp, own = (column(runs, "communication_bytes") for runs in scaled(PUBLISHED).values())
    rows = [
        (str(size), a / 1e9, b / 1e9, a / b if b else None) for size, a, b in zip(SIZES, dp, own, strict=True)
    ]
    lower = [str(size) for size, a, b in zip(SIZES, dp, own, strict=True) if b < a]
    return {"rows": rows, "lower": ", ".join(lower), "two": rows[1][3], "most": rows[-1][3]}


def figure_12() -> kit.Result:
    tree = PUBLISHED.over_dp()
    torus, ordered = (over_torus(PUBLISHED, PUBLISHED.on(changes)) for changes in (TORUS, ORDERED))
    rows = with_mean(tree, torus, ordered)
    known = [SPEED, TORUS_SPEED, TORUS_SPEED]
    ratios = [ours / own for ours, own in zip(rows[-1][1:], known, strict=True)]
    return {
        "rows": [*rows, ("published mean", *known), ("ratio", *ratios)],
        "tree": tree["sfc"], "torus": torus["sfc"],
        "faster": sum(tree[name] > torus[name] for name in NETWORKS if name != "sfc"),
    }  # fmt: skip


@cache
def over_trick(run: Run) -> dict[str, tuple[float, float]]:
    """Return the trick's time and energy over HyPar's on single layers and arrays of several sizes."""
    found = {}
    for layer, batch in GIVEN["trick"].items():
        own = alone(layer, batch, run.dtype)
        for levels in (2, 3, 4):
            changed = run.on({"devices": 2**levels}).machine
            trick, ours = (
                kit.scored(hypar.plan_model(own, levels=levels, strategy=name, hardware=changed, convention=run.convention))
                for name in ("owt", "hypar")
            )  # fmt: skip
            ratios = trick.time_s / ours.time_s, (trick.energy_j or 0) / (ours.energy_j or 1)
            found[f"{layer}, batch {batch}, {levels} levels"] = ratios
    return found


def figure_13() -> kit.Result:
    cases = over_trick(PUBLISHED)
    speed, energy = zip(*cases.values(), strict=True)
    rows = [(what, *own) for what, own in cases.items()]
    return {"rows": [*rows, ("mean", sum(speed) / 6, sum(energy) / 6), ("most", max(speed), max(energy))]}


def inequality() -> kit.Result:
    rows = []
    for name, batch in GIVEN["trick"].items():
        network = alone(name, batch)
        layer = network.layers[-1]
        gradient = layer.num_parameters
        output = batch * math.prod(layer.shape.values())
        for level, dim in enumerate(hypar.plan_model(network, levels=LEVELS, convention="paper").dims(name)):
            less = "dp" if gradient < output else "mp" if output < gradient else "neither"
            own = WORDS[dim or ""]
            rows.append((f"{name}, batch {batch}, H{level + 1}", gradient, output, less, own))
            gradient, output = (gradient, output // 2) if own == "dp" else (gradient // 2, output)
    return {"rows": rows}


def assumptions() -> kit.Result:
    known, rows = kit.published("hypar", "summary"), []
    for words, other in GIVEN["alternatives"].items():
        run = PUBLISHED._replace(weight=other.get("weight", 0.5), optimizer=other.get("optimizer", "sgd"))
        changes = other.get("changes", {})
        here = run.on(changes)
        wired = run.on({**(ORDERED if other.get("torus") == "ordered" else TORUS), **changes})
        speed, energy = here.over_dp(), here.over_dp("energy_j")
        rows.append((words, mean(speed), speed["sfc"], speed["lenet-c"], speed["alexnet"], speed["vgg-a"],
                     min(speed[name] for name in EIGHT), mean(energy), energy["sfc"], mean(over_torus(here, wired))))  # fmt: skip
    heads = (
        *("performance, " + word for word in ("mean of ten", "SFC", "Lenet-c", "AlexNet", "VGG-A", "least of the other eight")),
        "energy, mean of ten", "energy, SFC", "performance on a torus, mean",
    )  # fmt: skip
    return {"rows": [("published", *map(known.get, heads)), *rows]}


def searched() -> kit.Result:
    rows = []
    for name in NETWORKS:
        base, own = (PUBLISHED.score(name, strategy).time_s for strategy in ("dp", "hypar"))
        asked: Any = {"strategy": "hypar", "cost": "time", "search": "joint", "convention": "paper"}
        best = hypar.plan_model(PUBLISHED.graph(name), levels=LEVELS, hardware=PUBLISHED.machine, **asked)
        least = kit.scored(best).time_s
        rows.append((name, base / own, base / least, 1 - least / own))
    return {"rows": rows}


def physical() -> kit.Result:
    scores = {
        (run.hardware, strategy): run.score("vgg-a", strategy)
        for run in (PUBLISHED, SAME)
        for strategy in ("dp", "hypar")
    }
    rows = [
        (hardware, {"hypar": "HyPar"}.get(strategy, strategy), 1e3 * own.time_s,
         *((own.energy or {}).get(part) for part in GIVEN["components"]), own.energy_j, watts(own))
        for (hardware, strategy), own in scores.items()
    ]  # fmt: skip
    before, after = PUBLISHED.machine, SAME.machine
    arrays = []
    for one in (after, before):
        fields = one.compute.model_dump()
        sides, hertz = (fields[side]["value"] for side in ("rows", "columns")), fields["frequency"]["value"]
        arrays.append(f"{' x '.join(map(str, sides))} elements at {hertz / 1e6:.0f} MHz")
    devices = [one.content.device for one in (after, before)]
    energies = [device.energy for device in devices if device.energy is not None]
    own, other = scores[SAME.hardware, "hypar"], scores[PUBLISHED.hardware, "hypar"]
    sent, whole = ([one.time["communication"] for one in (own, other)], [one.time_s for one in (own, other)])
    return {
        "rows": rows, "arrays": arrays, "bits": [round(8 * device.word.value) for device in devices],
        "memory": [1e12 * energy.memory.value for energy in energies],
        "link": 1e12 * energies[0].link.value if energies[0].link else None,
        "computing": (whole[0] - sent[0]) / (whole[1] - sent[1]), "sending": sent[0] / sent[1],
        "rest": (own.energy or {})["static"] / (own.energy_j or 1),
    }  # fmt: skip


def figures_6_and_7() -> kit.Result:
    runs = (PUBLISHED, SAME, SAME._replace(counted="moved"), MOVED)
    speed, energy = [run.over_dp() for run in runs], [run.over_dp("energy_j") for run in runs]
    rows = with_mean(*speed, *energy)
    again = [name for name in NETWORKS if speed[3][name] > speed[2][name] * (1 + 1e-3)]
    return {
        "rows": rows, "apart": max(abs(speed[1][name] / speed[0][name] - 1) for name in NETWORKS),
        "mp": ", ".join(name for name, ratio in SAME.over_dp(strategy="mp").items() if ratio >= 1),
        "more": rows[-1][6] / rows[-1][5], "rest": saved(SAME, "vgg-a")["static"],
        "again": ", ".join(again) or "none",
    }  # fmt: skip


def differences() -> kit.Result:
    def means(run: Run) -> tuple[float, float, float]:
        return mean(run.over_dp()), mean(run.over_dp("energy_j")), watts(run.score("vgg-a"))

    def dram(run: Run) -> float:
        energy = run.score("vgg-a").energy or {}
        active = sum(own for place, own in energy.items() if place != "static")
        return (energy["memory"] + energy["communication"]) / active

    found = {words: means(SAME.on(changes)) for words, changes in GIVEN["without"].items()}
    found["32-bit elements"] = means(SAME._replace(dtype=None))
    return {
        "rows": [(words, *own) for words, own in found.items()],
        "dark": found["nothing at rest"][1], "published": means(PUBLISHED)[1], "whole": found["all of it"][1],
        "dram": [dram(SAME), dram(PUBLISHED)],
    }  # fmt: skip


def figure_11_physical() -> kit.Result:
    runs = (PUBLISHED, SAME, SAME._replace(counted="moved"))
    series = [faster(own) for run in runs for own in scaled(run).values()]
    turns = [f"{peak(dp)} and {peak(own)}" for dp, own in zip(series[::2], series[1::2], strict=True)]
    return {"rows": scaling_rows(series), "turns": turns, "lost": series[5][-1] / series[3][-1]}


def figure_13_physical() -> kit.Result:
    found = [over_trick(run) for run in (PUBLISHED, SAME, MOVED)]
    cells = {what: [each[what][part] for part in (0, 1) for each in found] for what in found[0]}
    means = [sum(column) / len(cells) for column in zip(*cells.values(), strict=True)]
    counted = max(abs(own[at] / own[at - 1] - 1) for own in cells.values() for at in (2, 5))
    rows = [(what, *own) for what, own in cells.items()]
    return {"rows": [*rows, ("mean", *means)], "counted": counted, "energy": means[3:]}
