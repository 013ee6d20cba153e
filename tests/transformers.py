"""Small transformers and convolutional blocks, as mappings of model files, and random choices of their layers."""

import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from hypar.network.graph import LayerGraph, load_model
from hypar.network.nodes import PlanGraph
from hypar.sharding.placement import WHOLE, Choice, Options, cut

MADE: dict[str, Any] = {
    name: row
    for file in ("networks.yaml", "transformers.yaml")
    for name, row in yaml.safe_load(Path(__file__).with_name(file).read_text(encoding="utf-8")).items()
}


def made(
    row: str,
    name: str,
    batch: int = 4,
    blocks: int = 1,
    dtype: str | None = None,
    tied: bool = True,
    **sizes: int,
) -> LayerGraph:
    """Return a network of a row with another batch, blocks, number format, sizes, or weights of their own."""
    data = {"source": "a test", **deepcopy(MADE[row]), "batch": batch}
    data |= {"dtype": dtype} if dtype else {}
    data |= {"dims": data["dims"] | sizes} if "dims" in data else {}
    for layer in data["layers"]:
        if "block" in layer:
            layer["repeat"] = blocks
        if not tied:
            layer.pop("weight", None)
    return load_model(data, name=name)


def of_row(name: str, row: str, graph: str = "small") -> Callable[..., LayerGraph]:
    """Return a function of some name that makes a network of ``networks.yaml``."""

    def network(batch: int = 4, **more: Any) -> LayerGraph:
        return made(row, graph, batch, **more)

    network.__name__ = name
    return network


one_matrix = of_row("one_matrix", "one matrix")
encoder = of_row("encoder", "encoder")
biased = of_row("biased", "biased attention")
deepseek = of_row("deepseek", "latent attention")
scaled = of_row("scaled", "scales of layers", "scaled")
vit = of_row("vit", "vision", "vit")
listener = of_row("listener", "convolutions of a sequence", "listener")
gated = of_row("gated", "gated channels", "gated")
mobilenet = of_row("mobilenet", "depthwise", "mobilenet")
unet = of_row("unet", "down and up", "unet")


def volume(batch: int = 4, groups: int = 1) -> LayerGraph:
    """Return a residual network of volumes, whose second convolution and third are perhaps in groups, with pools."""
    if groups == 1:
        return made("volumes", "volume", batch)
    data = {"source": "a test", **deepcopy(MADE["volumes in groups"]), "batch": batch}
    for layer in data["layers"]:
        layer.update({"groups": groups} if "groups" in layer else {})
        layer.update({"mode": "max" if groups == 4 else "average"} if layer.get("stride") == 1 else {})
    return load_model(data, name="volume")


gpt = of_row("gpt", "gpt")
llama = of_row("llama", "llama")


def mixtral(batch: int = 4, one: bool = False, **more: Any) -> LayerGraph:
    """Llama's block, whose gated unit is one of experts, two for each position; perhaps of one matrix."""
    return made("experts of one matrix" if one else "mixtral", "small", batch, **more)


def linear(name: str, read: Any, made: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "op": "linear", "in": read, "out": made, **more}


def chosen(graph: PlanGraph, array: tuple[int, ...], dims: dict[str, str], default: str) -> list[Options]:
    """The same choice at every level for layers of some names; ``whole`` for a join that is not divided."""
    found: list[Options] = []
    for layer in graph.layers:
        word = dims.get(layer.name.rpartition(".")[2], default)
        found.append(tuple(WHOLE if word == "whole" else cut(word, ways) for ways in array))
    return found


def drawn(graph: PlanGraph, array: tuple[int, ...], random: random.Random) -> list[Options]:
    """A random legal choice of each layer at each level, of dims that it divides evenly where there are some."""
    found: list[Options] = []
    for layer in graph.layers:
        left = {dim: layer.nest.sizes[dim] for dim in layer.nest.cuttable}
        own: list[Choice] = []
        for ways in array:
            even = [dim for dim in left if left[dim] % ways == 0]
            if not layer.nest.multiplies and random.random() < 0.1:
                own.append(WHOLE)
                continue
            dim = random.choice(even or [*left])
            left[dim] = max(1, left[dim] // ways)
            own.append(cut(dim, ways))
        found.append(tuple(own))
    return found
