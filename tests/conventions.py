"""Random networks, and search problems of them under a convention."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypar import LayerGraph
from hypar.costs.base import load_cost
from hypar.files.yaml_file import parse_yaml
from hypar.machine.machine import Machine
from hypar.network.graph import build_graph
from hypar.planning.question import Question, costs_by_level
from hypar.sharding.levels import levels_of
from hypar.sharding.placement import Options
from hypar.sharding.space import parse_space

THREE_TYPES = "batch,in_channels,out_channels"


def network(lines: Sequence[str], batch: int = 8) -> LayerGraph:
    text = f"source: made up\nbatch: {batch}\nlayers:\n" + "\n".join(f"  - {line}" for line in lines)
    return build_graph(parse_yaml(text, Path("made-up.yaml")), "made-up")


def random_network(rng: random.Random) -> LayerGraph:
    size = rng.choice([8, 16])
    lines = [f"{{op: input, channels: {rng.choice([4, 8])}, height: {size}, width: {size}}}"]
    for at in range(rng.randint(1, 2)):
        stride = rng.choice([1, 1, 2])
        kernel = rng.choice([1, 3])
        lines.append(
            f"{{name: conv{at}, op: conv, out_channels: {rng.choice([4, 8, 16])}, kernel: {kernel},"
            f" padding: {kernel // 2}, stride: {stride}}}"
        )
        if rng.random() < 0.5:
            lines.append("{op: pool, mode: max, kernel: 2}")
    if rng.random() < 0.6:
        last = rng.choice(["add", "concat"])
        lines += [
            "{name: relu0, op: relu}",
            "{name: left, op: conv, inputs: [relu0], out_channels: 8, kernel: 3, padding: 1}",
            "{name: right, op: conv, inputs: [relu0], out_channels: 8, kernel: 1}",
            f"{{name: join, op: {last}, inputs: [left, right]}}",
        ]
    if rng.random() < 0.5:
        lines.append("{op: pool, mode: average, window: global}")
    lines.append("{op: flatten}")
    lines += [
        f"{{name: fc{at}, op: linear, out_features: {rng.choice([4, 8, 32])}}}"
        for at in range(rng.randint(1, 2))
    ]
    return network(lines, rng.choice([4, 8, 32]))


def question_of(
    graph: LayerGraph,
    array: Sequence[int],
    convention: str,
    *,
    space: str = THREE_TYPES,
    cost: str = "volume",
    machine: Machine | None = None,
    idle: bool = False,
) -> Question:
    """Ask for the choices of a network that cost least under a convention."""
    cut = graph.contracted
    found = parse_space(space)
    return Question(
        graph=cut,
        cost=load_cost(cost, {}, {"convention": convention, "machine": machine}),
        levels=levels_of(tuple(array), 4),
        options=tuple(tuple(found.choices(layer, ways, idle=idle) for ways in array) for layer in cut.layers),
    )


def cost_of(question: Question, choices: Sequence[Options], convention: str | None = None) -> float:
    if convention is not None:
        cost = replace(question.cost, convention=convention)  # type: ignore[type-var]
        question = replace(question, cost=cost)
    return math.fsum(cost for at_level in costs_by_level(question, tuple(choices)) for cost in at_level)


def drawn(question: Question, rng: random.Random) -> tuple[Options, ...]:
    return tuple(tuple(rng.choice(options) for options in at_layer) for at_layer in question.options)
