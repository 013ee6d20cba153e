"""Random networks, and search problems of them under a convention."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypar import LayerGraph, load_model
from hypar.costs.base import load_cost
from hypar.files.yaml_file import parse_yaml
from hypar.machine.machine import Machine
from hypar.network.graph import build_graph
from hypar.planning.question import Question
from hypar.planning.searches.named import costs_by_level
from hypar.sharding.placement import Options, levels_of
from hypar.sharding.space import parse_space
from tests.generate import images

THREE_TYPES = "batch,in_channels,out_channels"


def network(lines: Sequence[str], batch: int = 8) -> LayerGraph:
    text = f"source: made up\nbatch: {batch}\nlayers:\n" + "\n".join(f"  - {line}" for line in lines)
    return build_graph(parse_yaml(text, Path("made-up.yaml")), "made-up")


def random_network(rng: random.Random) -> LayerGraph:
    """A network on images with sums, concatenations, pools, norms and groups, or without."""
    return load_model(images(rng.choice).model, name="made-up")


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
