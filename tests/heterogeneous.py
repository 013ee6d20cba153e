"""Hypothesis generators of small networks, of heterogeneous machines and of what the groups of an uneven split pay."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from hypar.costs.base import GroupRates
from hypar.files.yaml_file import parse_yaml
from hypar.network.graph import LayerGraph, build_graph
from tests.generate import group, groups_of, kind

__all__ = ["group", "groups_of", "kind"]

INPUT = "  - {{op: input, channels: {}, height: {}, width: {}}}\n"
CONV = "  - {{name: {}, op: conv, out_channels: {}, kernel: 3, padding: 1, inputs: {}}}\n"
LINEAR = "  - {{name: {}, op: linear, out_features: {}, inputs: {}}}\n"


@cache
def written(text: str, batch: int = 8) -> LayerGraph:
    text = f"source: made up\nbatch: {batch}\nlayers:\n{text}"
    return build_graph(parse_yaml(text, Path("net.yaml")), "net")


@st.composite
def chains(draw: st.DrawFn, least: int = 1, most: int = 4) -> LayerGraph:
    sizes = st.integers(1, 48)
    convs, linears = draw(st.integers(0, 2)), draw(st.integers(1, 3))
    while convs + linears > most:
        convs, linears = (convs - 1, linears) if convs else (convs, linears - 1)
    linears = max(linears, least - convs)
    text, last = INPUT.format(draw(sizes), 8, draw(st.integers(1, 8))), "input"
    for number in range(convs):
        text += CONV.format(f"conv{number}", draw(sizes), last)
        last = f"conv{number}"
    text += f"  - {{name: flat, op: flatten, inputs: {last}}}\n"
    last = "flat"
    for number in range(linears):
        text += LINEAR.format(f"fc{number}", draw(sizes), last)
        last = f"fc{number}"
    return written(text, draw(st.sampled_from([2, 8, 30, 64])))


@st.composite
def skips(draw: st.DrawFn) -> LayerGraph:
    width, channels = draw(st.integers(1, 8)), draw(st.integers(2, 32))
    text = INPUT.format(draw(st.integers(1, 16)), 8, width) + CONV.format("stem", channels, "input")
    text += CONV.format("beside", channels, "stem")
    text += "  - {name: sum, op: add, inputs: [beside, stem]}\n  - {name: flat, op: flatten}\n"
    text += LINEAR.format("fc", draw(st.integers(1, 32)), "flat")
    return written(text, draw(st.sampled_from([2, 16, 64])))


@st.composite
def evens(draw: st.DrawFn) -> LayerGraph:
    """A chain, or a branch around a convolution that is added or concatenated, of sizes that levels divide evenly."""
    sizes = st.sampled_from([8, 16, 24, 48])
    channels, join = draw(sizes), draw(st.sampled_from([None, "add", "concat"]))
    text = INPUT.format(draw(sizes), 8, draw(st.sampled_from([1, 2, 4]))) + CONV.format(
        "stem", channels, "input"
    )
    if join is not None:
        text += CONV.format("beside", channels, "stem")
        text += f"  - {{name: join, op: {join}, inputs: [beside, stem]}}\n"
    text += "  - {name: flat, op: flatten}\n" + LINEAR.format("fc", draw(sizes), "flat")
    return written(text + LINEAR.format("last", draw(sizes), "fc"), draw(st.sampled_from([8, 16, 64])))


networks = st.one_of(chains(), skips(), evens())


@st.composite
def rates(draw: st.DrawFn, groups: int) -> tuple[GroupRates, ...]:
    found = []
    for _ in range(groups):
        element = draw(st.sampled_from([1e-9, 3e-9, 1e-8, 1e-7]))
        once = draw(st.sampled_from([0.0, 1e-6, 1e-5]))
        work = draw(st.floats(1e-13, 1e-10))
        found.append(GroupRates(inside=element, between=element, once=once, work=work))
    return tuple(found)


@st.composite
def shares(draw: st.DrawFn, groups: int, least: int = 2) -> tuple[float, ...]:
    """Shares of all groups, none of them very small."""
    weights = draw(st.lists(st.integers(least, 7), min_size=groups, max_size=groups))
    return tuple(weight / sum(weights) for weight in weights)


def write_machine(
    folder: Path, kinds: Mapping[str, dict[str, Any]], groups: Sequence[dict[str, Any]]
) -> Path:
    """Write the files of a heterogeneous machine and of its kinds of devices; the first is returned."""
    for name, data in kinds.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    file = folder / "mixed.yaml"
    file.write_text(yaml.safe_dump({"source": "drawn", "groups": [*groups]}, sort_keys=False))
    return file


Drawn = tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]


@st.composite
def machines(draw: st.DrawFn, *, memories: Sequence[str] = ("16 GB",), most: int = 8) -> Drawn:
    """Three different kinds of devices, side by side or two of them as one group; for ``write_machine``."""
    kinds = {
        name: kind(
            devices=draw(st.integers(1, most)),
            peak=f"{draw(st.sampled_from([0.1, 1, 1.7, 30]))} TFLOP/s",
            memory=draw(st.sampled_from(memories)),
            link=f"{draw(st.sampled_from([1, 25, 300]))} GB/s",
            latency=draw(st.sampled_from(["0 s", "1 us"])),
            overlap=draw(st.sampled_from(["none", "none", "full"])),
            topology=draw(st.sampled_from(["fully_connected", "ring", "torus", "switch"])),
        )
        for name in "abc"
    }
    bandwidths = [f"{draw(st.sampled_from([0.5, 8, 100]))} GB/s" for _ in range(4)]
    latency = draw(st.sampled_from(["0 s", "2 us"]))
    first, second, third = (
        group(f"{name}.yaml", bandwidth=bandwidth, latency=latency)
        for name, bandwidth in zip(kinds, bandwidths, strict=False)
    )
    inner = bandwidths[3]
    return kinds, draw(
        st.sampled_from(
            [
                [first, second, third],
                [first, groups_of("pair", second, third, bandwidth=inner)],
                [groups_of("pair", first, second, bandwidth=inner), third],
            ]
        )
    )
