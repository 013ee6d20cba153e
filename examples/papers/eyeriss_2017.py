"""Eyeriss (JSSC 2017), ISCA 2016 and TETRIS (ASPLOS 2017): layers on row-stationary arrays."""

from __future__ import annotations

from functools import cache
from typing import Any

import kit

import hypar

GIVEN = kit.given("eyeriss")
BATCHES = {"alexnet-2012": 4, "vgg16": 3}
WORD_BYTES = 2
MOST_ZEROS, PAIR_WORDS = 31, 4 / 3
"""Zeros of a run that a pair counts, and 16-bit words that a pair takes: three share 64 bits (JSSC 2017, section III)."""

MOVING = ("registers", "array", "buffer")
Step = dict[str, dict[str, Any]]


@cache
def forward(machine: str, network: str, batch: int) -> Step:
    """Return the forward phase of each layer, whole on one device, in 16-bit words; on the chip with its zeros."""
    graph = hypar.load_model(network, batch=batch)
    fields = coded(network) if machine == "eyeriss" else {}
    words = graph.with_fields(fields, dtype="bfloat16")
    plan = hypar.plan_model(words, levels=0, stages=1, hardware=machine)
    rows = {row["layer"]: row for row in hypar.score_layers(plan, model=words) if row["phase"] == "forward"}
    return {name: rows[name] for name in fields or rows}


@cache
def coded(network: str) -> dict[str, dict[str, float | None]]:
    """Return the zeros that each layer reads and writes, those written before the pool that may follow.

    The first layer's input is not coded. An output has as many zeros as the next layer's input, the last as many as its
    own; but where the paper says how much coding saves of a layer's feature maps, so many that it saves that.
    """
    zeros = GIVEN["zeros"][network]
    names = list(zeros)
    found = {
        name: {"input_zeros": zeros[name] if name != names[0] else None, "output_zeros": zeros[after]}
        for name, after in zip(names, [*names[1:], names[-1]], strict=True)
    }
    saved = GIVEN["saved"] if network == "alexnet-2012" else {}
    for layer in hypar.load_model(network).layers:
        if layer.name in saved:
            (read,), written = layer.input_shapes, layer.shape
            planes = [shape["height"] * shape["width"] for shape in (read, written)]
            maps = [plane * shape["channels"] for plane, shape in zip(planes, (read, written), strict=True)]
            own = maps[0] * run_length_words(found[layer.name]["input_zeros"], planes[0])
            left = ((1 - saved[layer.name]) * sum(maps) - own) / maps[1] / PAIR_WORDS
            found[layer.name]["output_zeros"] = 1 - (left - 2 / planes[1]) / (1 - 1 / planes[1])
    return found


def run_length_words(zeros: float | None, plane: int) -> float:
    """Return the words that an element takes, zeros being anywhere and each plane a code; 1 if it is not coded."""
    if zeros is None:
        return 1.0
    pairs = 1 / sum(zeros**run for run in range(MOST_ZEROS + 1))
    return PAIR_WORDS * (pairs + (2 - pairs) / plane)


def milliwatts(row: dict[str, Any]) -> dict[str, float]:
    """Return the power of the chip by component, without that of the DRAM."""
    return {part: 1e3 * joules / row["time_s"] for part, joules in row["energy"].items() if part != "memory"}


def picked(asked: str, found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows of a table: all, or of Table VI those by which the rules for mappings were chosen, or the others."""
    kept = {"seen": True, "held out": False}.get(asked.partition(" ")[2])
    return [row for row in found if kept is None or (row[0] in GIVEN["seen"]) == kept]


def times(asked: str) -> kit.Result:
    network = asked.partition(" ")[0]
    found = [
        (name, row["mapping"]["active"], 1e3 * row["time_s"], sum(milliwatts(row).values()))
        for name, row in forward("eyeriss", network, BATCHES[network]).items()
    ]
    total = (
        "total" if network == "alexnet-2012" else "all convolutions",
        None,
        sum(row[2] for row in found),
        None,
    )
    return {"rows": [*picked(asked, found), *([] if asked.endswith("seen") else [total])]}


def words(asked: str) -> kit.Result:
    network = asked.partition(" ")[0]
    found = [
        (name, GIVEN["zeros"][network][name], coded(network)[name]["output_zeros"],
         *(row["accesses"][place] * WORD_BYTES / 1e6 for place in ("buffer", "memory")))
        for name, row in forward("eyeriss", network, BATCHES[network]).items()
    ]  # fmt: skip
    return {"rows": picked(asked, found)}


def power() -> kit.Result:
    rows, layers = [], forward("eyeriss", "alexnet-2012", 4)
    for name, row in layers.items():
        parts = milliwatts(row)
        shares = parts["arithmetic"], sum(parts[part] for part in MOVING), parts["static"]
        rows.append((name, *(100 * share / sum(parts.values()) for share in shares)))
    machine, dense = hypar.load_machine("eyeriss"), layers["conv1"]
    spent = dense["energy"]
    mac, register = spent["arithmetic"] / dense["macs"], spent["registers"] / dense["accesses"]["registers"]
    clock = spent["static"] / dense["time_s"] / (machine.compute.flop_per_s(1) / 2)
    return {"rows": rows, "saving": (mac + 3 * register) / (mac + 4 * register + clock)}


def isca() -> kit.Result:
    parts = ("arithmetic", "memory", "registers")
    layers = forward("eyeriss-isca", "alexnet-2012", 16)
    return {"rows": [(name, *(row["energy"][part] / 1e-3 for part in parts)) for name, row in layers.items()]}


def tetris() -> kit.Result:
    cube, flat = (forward(name, "alexnet-2012", 16) for name in ("tetris", "tetris-2d"))
    seconds = [sum(row["time_s"] for row in step.values()) for step in (cube, flat)]
    joules = [sum(sum(row["energy"].values()) for row in step.values()) for step in (cube, flat)]
    return {"rows": [("speed", seconds[1] / seconds[0]), ("energy", joules[0] / joules[1])]}
