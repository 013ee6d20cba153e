"""The parts of a tensor that one of two devices receives, read off the transfers of plans for one or two layers."""

from __future__ import annotations

import hypar

SIDE = 8
"""Samples, input and output channels: every tensor has as many elements."""


def parts(*dims: str) -> dict[tuple[str, str, bool], float]:
    """Return what a device receives by layer, phase, and whether it is a sum inside it, of layers each cut in two in a dim."""
    names = ("first", "second")[: len(dims)]
    layers = [{"name": name, "op": "linear", "out_features": SIDE, "bias": False} for name in names]
    said = {"source": "layers alone", "batch": SIDE, "layers": [{"op": "input", "channels": SIDE}, *layers]}
    graph = hypar.load_model(said, name="layers")
    plan = hypar.plan_model(
        graph, levels=1, space="batch,in_channels,out_channels", convention="paper", hardware="hmc",
        pins=[f"{name}={dim}" for name, dim in zip(names, dims, strict=True)],
    )  # fmt: skip
    found: dict[tuple[str, str, bool], float] = {}
    for row in hypar.score_layers(plan, model=graph, convention="paper"):
        for sent in row["transfers"]:
            key = (row["layer"], row["phase"], sent["collective"] == "all_reduce")
            found[key] = found.get(key, 0.0) + sent["bytes"] / 2 / (graph.element_bytes * SIDE**2)
    return found


def between(made: str, read: str) -> tuple[float, float]:
    """Return the parts of F and of E that a device receives between two layers."""
    found = parts(made, read)
    return found.get(("second", "forward", False), 0.0), found.get(("first", "backward", False), 0.0)


def inside(dim: str) -> dict[str, float]:
    """Return the part of its sum that a device receives inside a layer, by phase."""
    return {phase: part for (_, phase, summed), part in parts(dim).items() if summed}
