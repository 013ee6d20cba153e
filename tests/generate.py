"""Draw valid requests: a network, a machine and the options of a plan, small ones first.

A request is plain data of the public API: the mapping of a model file, the files of a machine, and keyword arguments of
``plan_model``, which ``command`` writes as a command line. One function draws it, ``request(pick)``, by choices alone:
``pick(values)`` takes one of a few values, the simplest of them first. So hypothesis draws and shrinks the same requests
(``requests()``) as a seed does (``drawn(seed)``). What ``docs/refusals.md`` excludes, and what fits no network, machine
or array, is never drawn: hypar plans every drawn request, and a test holds that.

``python tests/generate.py --count 200`` plans as many and prints the share of each feature and of each pair of them.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from hypothesis import strategies as st

from hypar import HyparError, plan_model

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    Pick = Callable[[Sequence[Any]], Any]

Data = dict[str, Any]

SHIPPED = ("hmc", "p100-4x4", "h100-8x", "tpu-v3")
"""Shipped machines of sixteen identical devices and more."""

OWN_COUNT = {"deepa"}
"""Costs with a count of bytes of their own."""

SLOWEST = {"accpar", "deepa"}
"""Costs of the slowest device group, which unequal shares relieve."""


class Request(NamedTuple):
    """What is asked of hypar, as plain data: a model file, a machine's files, and keyword arguments of ``plan_model``.

    The machine is a shipped one's name, or of the first of ``files``; ``features`` are words for what was drawn.
    """

    model: Data
    machine: str | None
    files: dict[str, Data]
    options: Data
    features: frozenset[str]

    def hardware(self, folder: Path) -> str | None:
        for name, data in self.files.items():
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
        return str(folder / f"{self.machine}.yaml") if self.files else self.machine

    def network(self, folder: Path) -> Path:
        file = folder / "net.yaml"
        file.write_text(yaml.safe_dump(self.model, sort_keys=False), encoding="utf-8")
        return file

    def keywords(self, folder: Path) -> Data:
        machine = self.hardware(folder)
        return self.options | ({} if machine is None else {"hardware": machine})

    def command(self, folder: Path) -> list[str]:
        words = [str(self.network(folder))]
        for name, value in self.keywords(folder).items():
            option = f"--{name.rstrip('s') if name == 'pins' else name.replace('_', '-')}"
            if name == "pins":
                words += [word for pin in value for word in (option, pin)]
            elif value is True:
                words.append(option)
            else:
                joined = {"array": "x", "starts": ","}.get(name)
                words += [option, str(value) if joined is None else joined.join(map(str, value))]
        return words


# Networks


class Network(NamedTuple):
    """A drawn network: its file, its weighted layers outside blocks, and where stages may begin, at least."""

    model: Data
    weighted: list[str]
    places: int
    features: set[str]


def perceptron(pick: Pick) -> Network:
    even = (8, 16, 4, 12, 6, 3, 5)
    count = pick((1, 2, 3, 4))
    layers: list[Data] = [{"op": "input", "channels": pick(even)}]
    for number in range(count):
        layers.append(
            {
                "name": f"fc{number}",
                "op": "linear",
                "out_features": pick(even),
                **({} if pick((True, False)) else {"bias": False}),
            }
        )
        if number < count - 1 and pick((False, True)):
            layers.append({"op": pick(("relu", "dropout", "gelu"))})
    names = [f"fc{number}" for number in range(count)]
    return Network(_model(layers, pick((8, 4, 6, 16))), names, count, {"linear layers"})


class _Images:
    def __init__(self, pick: Pick) -> None:
        self.pick = pick
        self.channels, self.rows = pick((4, 8, 6, 3)), pick((8, 4, 5))
        self.layers: list[Data] = [
            {"op": "input", "channels": self.channels, "height": self.rows, "width": self.rows}
        ]
        self.last, self.weighted, self.joins = "input", list[str](), 0
        self.features = {"convolutions"}

    def add(self, op: str, **fields: Any) -> str:
        """Append a layer that reads the last one, and return its name."""
        self.last, read = f"{op}{len(self.layers)}", self.last
        self.layers.append({"name": self.last, "op": op, **({"inputs": read} | fields)})
        return self.last

    def conv(self, channels: int | None = None, *, same: bool = False, **fields: Any) -> None:
        """Append a convolution; one that keeps the rows if they are to stay the ``same``."""
        made = self.pick((8, 4, 12, 6)) if channels is None else channels
        shared = [ways for ways in (1, 2, 4, self.channels) if self.channels % ways == 0 and made % ways == 0]
        groups = self.pick([1, 1, *shared])
        kernels = (3, 1) if same else (3, 1, 3, 2, 5)
        kernel = self.pick([size for size in kernels if size <= self.rows])
        stride = 1 if same or self.rows < 4 else self.pick((1, 1, 2))
        padding = kernel // 2 if same or self.pick((True, False)) else 0
        self.features |= {"groups"} if groups > 1 else set()
        self.features |= {"strides"} if stride > 1 else set()
        self.features |= {"wide halos"} if kernel > 3 else set()
        fields |= {"groups": groups} if groups > 1 else {}
        fields |= {"stride": stride} if stride > 1 else {}
        fields |= {} if self.pick((True, False)) else {"bias": False}
        self.weighted.append(self.add("conv", out_channels=made, kernel=kernel, padding=padding, **fields))
        self.channels, self.rows = made, (self.rows + 2 * padding - kernel) // stride + 1

    def behind(self) -> None:
        op = self.pick((None, "relu", "batch_norm", "pool", "dropout", "lrn"))
        if op == "pool" and self.rows >= 2:
            self.add("pool", mode=self.pick(("max", "average")), kernel=2)
            self.rows //= 2
            self.features.add("pools")
        elif op == "lrn":
            self.add("pointwise", function="lrn")
        elif op in {"relu", "batch_norm", "dropout"}:
            self.features |= {"norms"} if op == "batch_norm" else set()
            self.add(op)

    def branch(self) -> None:
        """Append a branch beside the last layer, and their sum or what they have together."""
        start, channels = self.last, self.channels
        op = self.pick(("add", "concat"))
        self.conv(channels if op == "add" else None, same=True)
        if self.pick((False, True)):
            self.behind_same()
        self.add(op, inputs=[self.last, start])
        self.channels += channels if op == "concat" else 0
        self.joins += 1
        self.features.add("sums" if op == "add" else "concatenations")

    def behind_same(self) -> None:
        self.add(self.pick(("relu", "batch_norm")))


def images(pick: Pick) -> Network:
    net = _Images(pick)
    net.conv()
    for _ in range(pick((0, 1, 2))):
        net.behind()
        net.branch() if pick((False, True)) else net.conv()
    net.behind()
    for number in range(pick((1, 0, 2))):
        if not number:
            if pick((False, False, True)):
                net.add("pool", mode="average", window="global")
                net.features.add("global pools")
            net.add("flatten")
        net.weighted.append(net.add("linear", out_features=pick((8, 4, 10))))
    model = _model(net.layers, pick((8, 4, 6, 16)))
    return Network(model, net.weighted, len(net.weighted), net.features)


BLOCK = """
- {name: norm1, op: NORM, over: hidden}
- {name: q, op: linear, in: hidden, out: HEADS BIAS}
- {name: k, op: linear, in: hidden, out: [kv_heads, head_dim], inputs: norm1 BIAS}
- {name: v, op: linear, in: hidden, out: [kv_heads, head_dim], inputs: norm1 BIAS}
- {name: attention, op: attention, inputs: [q, k, v], causal: CAUSAL}
- {name: o, op: linear, in: HEADS, out: hidden BIAS}
- {name: add1, op: add, inputs: [o, input]}
- {name: norm2, op: NORM, over: hidden}
- {name: up, op: linear, in: hidden, out: ff, inputs: norm2}
- {name: act, op: gelu}
- {name: made, op: linear, in: ff, out: hidden}
- {name: add2, op: add, inputs: [made, add1]}
"""
EXPERTS = """
- {name: router, op: linear, in: hidden, out: experts, bias: false, inputs: norm2}
- {name: gates, op: top_k, over: experts, count: 2}
- {name: dispatch, op: dispatch, inputs: norm2, to: experts, count: 2}
- {name: up, op: linear, in: hidden, out: ff, inputs: dispatch, each: experts, bias: false}
- {name: act, op: gelu}
- {name: down, op: linear, in: ff, out: hidden, each: experts, bias: false}
- {name: made, op: combine, inputs: [down, gates], count: 2}
"""
ENDS = """
- {op: input, shape: [sequence]}
- {name: wte, op: embedding, over: vocab, out: hidden}
- {name: wpe, op: position}
- {block: block, name: h, repeat: BLOCKS}
- {op: NORM, over: hidden}
- {name: head, op: linear, in: hidden, out: vocab, bias: false WEIGHT}
- {op: cross_entropy, over: vocab}
"""


def transformer(pick: Pick) -> Network:
    """Blocks of attention and a feed-forward unit between an embedding and a head, whose weight may be the embedding's."""
    norm, grouped = pick(("layer_norm", "rms_norm")), pick((False, True))
    causal, gated, tied = pick((True, False)), pick((False, True)), pick((False, True))
    experts, blocks, biased = pick((False, False, True)), pick((1, 1, 2)), pick((True, False))
    turned = pick((False, True))
    words = {
        "NORM": norm,
        "HEADS": "[kv_heads, group, head_dim]" if grouped else "[kv_heads, head_dim]",
        "BIAS": "" if biased else ", bias: false",
        "CAUSAL": str(causal).lower(),
        "BLOCKS": str(blocks),
        "WEIGHT": ", weight: wte" if tied else "",
    }
    block, ends = _layers(BLOCK, words), _layers(ENDS, words)
    if experts:
        block[8:11] = _layers(EXPERTS, words)
    if gated:
        act = next(at for at, layer in enumerate(block) if layer["name"] == "act")
        block[act]["op"] = "silu"
        gate = {**block[act - 1], "name": "gate"}
        block[act + 1 : act + 1] = [gate, {"name": "mixed", "op": "multiply", "inputs": ["act", "gate"]}]
    if turned:
        block.insert(2, {"name": "qr", "op": "rope"})
        block[5]["inputs"][0] = "qr"
        del ends[2]
    dims = {"sequence": pick((8, 4)), "hidden": pick((16, 8)), "kv_heads": 2, "head_dim": 4, "ff": 16}
    dims |= {"group": 2} if grouped else {}
    dims |= {"experts": 4} if experts else {}
    model = _model(ends, pick((4, 6, 8))) | {"dims": {**dims, "vocab": pick((24, 12))}}
    found = {"attention": True, "experts": experts, "tied weights": tied, "norms": True}
    found |= {"causal": causal, "grouped heads": grouped, "rotated": turned, "gated units": gated}
    features = {name for name, has in found.items() if has}
    places = 4 + 6 * blocks
    return Network(model | {"blocks": {"block": {"layers": block}}}, ["wte", "head"], places, features)


def _layers(text: str, words: dict[str, str]) -> list[Data]:
    """Read layers, with some words replaced."""
    for word, own in words.items():
        text = text.replace(f" {word}" if own.startswith(",") or not own else word, own)
    found: list[Data] = yaml.safe_load(text)
    return found


def _model(layers: Sequence[Data], batch: int) -> Data:
    return {"source": "drawn", "batch": batch, "layers": list(layers)}


def network(pick: Pick) -> Network:
    found: Network = pick((perceptron, images, images, transformer))(pick)
    return found


# Machines


class Machine(NamedTuple):
    """A drawn machine: its files, devices below all uneven splits, at least, and their ways, outermost first."""

    name: str | None
    files: dict[str, Data]
    devices: int
    splits: tuple[int, ...]
    features: set[str]


def no_machine(_: Pick) -> Machine:
    """Return no machine, which has room for eight devices."""
    return Machine(None, {}, 8, (), {"no machine"})


def shipped(pick: Pick) -> Machine:
    name = pick(SHIPPED)
    return Machine(name, {}, 8, (), {"shipped machine"})


def identical(pick: Pick) -> Machine:
    """Identical devices on one network, with more or fewer of what a machine file may say."""
    devices = pick((4, 2, 8, 6, 12))
    data, features = _kind(pick, devices)
    return Machine("one", {"one": data}, devices, (), {"identical devices", *features})


def unlike(pick: Pick) -> Machine:
    """Two or three groups of unlike devices, two of three side by side or as one group."""
    kind, least = pick(("device groups", "three groups", "nested groups")), pick((1, 2, 4))
    more = [least, least * pick((1, 2)), least]
    # A group beside a pair has as many devices as the pair, whose split is one of its levels.
    each = {"device groups": more[:2], "three groups": more, "nested groups": [2 * least, least, least]}[kind]
    files, features, groups = dict[str, Data](), {kind}, list[Data]()
    for name, devices in zip("abc", each, strict=False):
        files[name], found = _kind(pick, devices)
        features |= found
        groups.append(group(f"{name}.yaml", **_outward(pick)))
    if kind == "nested groups":
        groups = [groups[0], groups_of("pair", *groups[1:], **_outward(pick))]
    files = {"mixed": {"source": "drawn", "groups": groups}, **files}
    return Machine("mixed", files, least, (2, 2) if kind == "nested groups" else (len(each),), features)


def _outward(pick: Pick) -> dict[str, str]:
    return {"bandwidth": pick(("10 GB/s", "0.5 GB/s", "100 GB/s")), "latency": pick(("0 s", "2 us"))}


def _kind(pick: Pick, devices: int) -> tuple[Data, set[str]]:
    trees = ("h_tree",) if devices & (devices - 1) == 0 else ()
    topology = pick(("fully_connected", "ring", "switch", "torus", "mesh", *trees))
    overlap, latency = pick(("none", "full")), pick(("0 s", "1 us"))
    energy, half = pick((False, True)), pick(("full", "half"))
    assumptions = {"duplex": half}
    assumptions |= {"unweighted": "counted"} if pick((False, True)) else {}
    assumptions |= {"exchange": "independent"} if pick((False, False, True)) else {}
    data = kind(
        devices=devices,
        topology=topology,
        overlap=overlap,
        latency=latency,
        peak=pick(("1 TFLOP/s", "0.1 TFLOP/s", "30 TFLOP/s")),
        half_efficiency=pick((0, 1000)),
        link=pick(("10 GB/s", "1 GB/s", "300 GB/s")),
    )
    data["assumptions"] |= {name: sourced(value) for name, value in assumptions.items()}
    if energy:
        data["device"]["energy"] = {name: sourced(value) for name, value in JOULES.items()}
    found = {"overlap": overlap == "full", "energies": energy, "latencies": latency != "0 s"}
    return data, {name for name, has in found.items() if has}


JOULES = {"multiply": "3.7 pJ", "add": "0.9 pJ", "buffer": "5 pJ", "memory": "640 pJ", "link": "100 pJ"}


def sourced(value: object) -> Data:
    return {"value": value, "source": "drawn"}


def kind(
    *,
    devices: int = 4,
    peak: str = "1 TFLOP/s",
    memory: str = "16 GB",
    memory_bandwidth: str = "100 GB/s",
    link: str = "10 GB/s",
    latency: str = "0 s",
    overlap: str = "none",
    topology: str = "fully_connected",
    half_efficiency: float = 0,
) -> Data:
    """Return the file of a machine of identical devices."""
    return {
        "source": "drawn",
        "device": {
            "word": sourced("4 B"),
            "compute": {
                "name": "roofline",
                "peak": sourced(peak),
                "half_efficiency_flop": sourced(half_efficiency),
            },
            "memory": {"capacity": sourced(memory), "bandwidth": sourced(memory_bandwidth)},
        },
        "interconnect": {
            "topology": topology,
            "devices": sourced(devices),
            "link_bandwidth": sourced(link),
            "latency": sourced(latency),
        },
        "assumptions": {"overlap": sourced(overlap)},
    }


def group(hardware: str, *, bandwidth: str = "10 GB/s", latency: str = "0 s", **others: object) -> Data:
    return {
        "hardware": hardware,
        "outward": {"bandwidth": sourced(bandwidth), "latency": sourced(latency)},
        **others,
    }


def groups_of(name: str, *inner: Data, **outward: str) -> Data:
    """Return several groups as one."""
    rates = {"bandwidth": "10 GB/s"} | outward
    return {"name": name, "groups": [*inner], "outward": {word: sourced(rates[word]) for word in rates}}


# Trees and options


def _tree(pick: Pick, net: Network, machine: Machine) -> Iterator[tuple[str, Any]]:
    kinds = ["levels", "array"]
    if machine.splits:
        kinds = ["all devices", *kinds]
    if machine.name is not None:
        kinds += ["best", *(["stages", "nested stages"] if net.places > 1 else [])]
    kind, splits = pick(kinds), len(machine.splits)
    if kind in {"levels", "best"}:
        most = _twos(machine.devices)
        yield "levels", pick(range(splits, splits + most + 1) if splits else range(1, most + 1))
    if kind == "best":
        yield "stages", "best"
    elif kind == "array":
        yield "array", (*machine.splits, *pick(_ways(machine.devices, machine)))
    elif kind == "stages":
        yield from _stages(pick, net, machine)
    elif kind == "nested stages":
        yield from _nested(pick, net, machine)


def _twos(number: int) -> int:
    """Return how often two divides a number."""
    return (number & -number).bit_length() - 1


def _ways(devices: int, machine: Machine) -> list[tuple[int, ...]]:
    """Return ways of levels on some devices, whose product divides them; none at all only below uneven splits."""
    ways: list[tuple[int, ...]] = [(2,), (2, 2), (4,), (3,), (2, 2, 2), (2, 3), (6,), (8,)]
    found = [array for array in ways if devices % math.prod(array) == 0]
    return [(), *found] if machine.splits else found


def _nested(pick: Pick, net: Network, machine: Machine) -> Iterator[tuple[str, Any]]:
    """Draw stages inside levels or uneven splits, with levels inside them or without; stages alone if they do not fit."""
    above = machine.splits or pick([(ways,) for ways in (2, 3, 4) if machine.devices % ways == 0])
    room = machine.devices // (1 if machine.splits else above[0])
    counts = [count for count in (2, 3, 4) if count <= net.places and room % count == 0]
    if not counts:
        yield from _stages(pick, net, machine)
        return
    count = pick(counts)
    below = pick([(), *(ways for ways in _ways(room // count, machine) if ways)])
    yield "array", (*above, f"s{count}", *below)
    yield from _ordered(pick, net, machine, count, ("1f1b", "gpipe"))


def _stages(pick: Pick, net: Network, machine: Machine) -> Iterator[tuple[str, Any]]:
    """Draw stages outside all levels, equally many on each group."""
    groups, devices = (machine.splits or (1,))[0], machine.devices
    counts = [count for count in (2, 3, 4, 6) if count % groups == 0 and count <= net.places]
    counts = [count for count in counts if devices % (count // groups) == 0 or not machine.splits]
    counts = [count for count in counts if count // groups <= devices]
    if not counts:
        yield "levels", max(len(machine.splits), 1)
        return
    count = pick(counts)
    room, splits = devices // (count // groups), max(len(machine.splits) - 1, 0)
    yield "stages", count
    if not machine.splits or pick((False, True)):
        most = [levels for levels in (0, 1, 2) if 2**levels <= room and levels <= _twos(devices)]
        yield "levels", splits + pick(most)
    yield from _ordered(
        pick, net, machine, count, ("1f1b", "gpipe", "interleaved", "interleaved", "layer-block")
    )


def _ordered(
    pick: Pick, net: Network, machine: Machine, count: int, schedules: Sequence[str]
) -> Iterator[tuple[str, Any]]:
    """Draw the order of the stages' work, their microbatches, and what says where they begin."""
    batch = net.model["batch"]
    turns = batch % count == 0 and 2 * count <= net.places and len(machine.splits) < 2
    schedule = pick((None, *(name for name in schedules if name != "interleaved" or turns)))
    if schedule is not None:
        yield "schedule", schedule
    if schedule not in {"layer-block", "interleaved"}:
        micro = pick((None, *(number for number in (1, 2, 4) if batch % number == 0)))
        yield from {} if micro is None else [("microbatches", micro)]
    elif schedule == "interleaved" and pick((False, True)):
        yield "parts", 2
    given = count <= len(net.weighted) and schedule != "interleaved" and "attention" not in net.features
    beginning = pick((None, None, "balance", *(("starts",) if given else ())))
    if beginning == "balance":
        yield "balance", pick(("memory", "traffic", "macs", "time"))
    elif beginning == "starts":
        yield "starts", tuple(net.weighted[:count])


def _options(pick: Pick, net: Network, machine: Machine, tree: Data) -> Iterator[tuple[str, Any]]:
    """Draw the other options of a request, with none that another one excludes."""
    named, staged = machine.name is not None, _staging(tree)
    # Stages that are each on identical devices have no uneven splits.
    apart = tree.get("stages", "best") != "best" and len(machine.splits) == 1
    uneven = bool(machine.splits) and not apart
    strategies = (None, "dp", "hypar", "accpar", "optimal", "owt", "mp", *(("deepa",) if named else ()))
    costs = (None, None, "volume", *(("accpar", "time", "deepa") if named else ()))
    strategy, cost = pick(strategies), pick(costs)
    own = {"deepa": "deepa", "accpar": "accpar" if uneven else "volume"}.get(str(strategy), "volume")
    found = {"strategy": strategy, "cost": cost} | _search(pick, cost or own)
    if named:
        found |= _with_machine(pick, net)
    if uneven and (cost or own) in SLOWEST:
        # Shares that are found anew for each refined choice, or for each layer jointly over all levels, take seconds.
        rules = [] if strategy == "optimal" or found["search"] == "joint" else ["layers"]
        refined = found.get("refine")
        found["shares"] = "equal" if refined else pick((None, "equal", "linear", "exact", *rules))
    if not staged and not machine.splits:
        found["time_limit"] = pick((None, None, None, 30))
    if tree.get("levels") != 0 or not staged:
        level = "stages" not in tree or ("levels" in tree and tree["stages"] != "best")
        pins = _pinned(pick, net, level=level)
        # Papers alone may pin more shards than there are elements.
        as_paper = strategy not in {"dp", "optimal"} and found["space"] is None
        one = pins is not None and "@H1" in pins[0] and "levels" in tree and not staged
        found["pins"] = pins if as_paper or one else None
    yield from ((name, value) for name, value in found.items() if value is not None)


def _search(pick: Pick, cost: str) -> Data:
    convention = pick((None, None, "moved", "fused", "paper"))
    spaces = (
        "all",
        "batch,in_channels,out_channels",
        "batch*out_channels",
        "conv:batch,height batch,in_channels",
    )
    weight = pick((None, None, None, 0.5))
    return {
        "convention": None if cost in OWN_COUNT else convention,
        "space": pick((None, None, *spaces)),
        "inter_weight": weight if cost == "volume" else None,
        "search": pick((None, None, None, "joint", "greedy")),
        "graph": pick((None, None, "operators")),
    }


def _staging(tree: Data) -> bool:
    """Whether levels and stages are asked for with stages among them."""
    return "stages" in tree or any(isinstance(ways, str) for ways in tree.get("array", ()))


def _with_machine(pick: Pick, net: Network) -> Data:
    return {
        "optimizer": pick((None, None, "adam", "momentum")),
        "chunks": pick((None,) * 8 + ("best", "one", "layers", 1, min(2, net.places))),
        "refine": pick((None, None, None, True)),
    }


def _pinned(pick: Pick, net: Network, *, level: bool) -> tuple[str] | None:
    linears = [name for name in net.weighted if name.startswith(("fc", "linear"))]
    layer = pick((None, None, None, *net.weighted[:1], *linears[:1], "*"))
    dim = pick(("batch", "in_channels", "out_channels") if layer in linears else ("batch",))
    at = "@H1" if level and pick((False, True)) else ""
    return None if layer is None else (f"{layer}{at}={dim}",)


def request(
    pick: Pick,
    machines: Sequence[Callable[[Pick], Machine]] = (no_machine, identical, shipped, unlike),
    networks: Callable[[Pick], Network] = network,
) -> Request:
    """Draw a request; ``pick`` takes one of a few values, of which the first is the simplest."""
    net, machine = networks(pick), pick(machines)(pick)
    tree = dict(_tree(pick, net, machine))
    options = tree | dict(_options(pick, net, machine, tree))
    features = {*net.features, *machine.features, *_words(options)}
    return Request(net.model, machine.name, machine.files, options, frozenset(features))


def _words(options: Data) -> Iterator[str]:
    for name, value in options.items():
        if name in {"strategy", "cost", "convention", "schedule", "shares", "optimizer", "search"}:
            yield f"{name} {value}"
        elif name == "stages":
            yield "best stages" if value == "best" else "stages"
        elif name == "array" and any(isinstance(ways, str) for ways in value):
            yield "nested stages"
        else:
            yield name.replace("_", " ")


@st.composite
def requests(draw: st.DrawFn, *drawn_from: Any) -> Request:
    """Draw requests by hypothesis, which shrinks them to one layer and one level; the other arguments are ``request``'s."""
    return request(lambda values: draw(st.sampled_from(values)), *drawn_from)


def drawn(seed: object, *drawn_from: Any) -> Request:
    return request(random.Random(str(seed)).choice, *drawn_from)


def shares_of(found: Collection[Collection[str]]) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Return how many of some requests have each feature, and each pair of features."""
    alone = Counter(name for features in found for name in features)
    pairs = Counter(pair for features in found for pair in combinations(sorted(features), 2))
    return alone, pairs


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw requests, plan them, and print what they have.")
    parser.add_argument("--count", type=int, default=200, help="how many to draw")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--pairs", action="store_true", help="print every pair of features too")
    asked = parser.parse_args()
    planned, found = 0, []
    for seed in range(asked.seed, asked.seed + asked.count):
        own = drawn(seed)
        found.append(own.features)
        with tempfile.TemporaryDirectory() as folder:
            try:
                plan_model(own.network(Path(folder)), **own.keywords(Path(folder)))
                planned += 1
            except HyparError as error:
                sys.stdout.write(f"refused: {seed}: {error}\n{own.options}\n")
    alone, pairs = shares_of(found)
    every = len(alone) * (len(alone) - 1) // 2
    sys.stdout.write(f"{asked.count} drawn, {planned} planned; {len(pairs)} of {every} pairs of features\n")
    for name, count in alone.most_common():
        sys.stdout.write(f"{count / asked.count:6.1%}  {name}\n")
    for (one, other), count in pairs.most_common() if asked.pairs else ():
        sys.stdout.write(f"{count / asked.count:6.1%}  {one}, {other}\n")


if __name__ == "__main__":
    main()
