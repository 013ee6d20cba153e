"""Hypothesis generators of small networks and of what the sides of a fork pay, and networks from a few lines."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from hypar.costs.base import SideRates
from hypar.documents import parse_yaml
from hypar.graph import build_graph
from hypar.spec import parse_spec

if TYPE_CHECKING:
    from hypar.graph import LayerGraph

INPUT = "  - {{op: input, channels: {}, height: {}, width: {}}}\n"
CONV = "  - {{name: {}, op: conv, out_channels: {}, kernel: 3, padding: 1, inputs: {}}}\n"
LINEAR = "  - {{name: {}, op: linear, out_features: {}, inputs: {}}}\n"


@cache
def written(text: str, batch: int = 8) -> LayerGraph:
    """The network of some lines of a model file."""
    text = f"source: made up\nbatch: {batch}\nlayers:\n{text}"
    return build_graph(parse_spec(parse_yaml(text, Path("net.yaml")), "net"))


@st.composite
def chains(draw: st.DrawFn, least: int = 1, most: int = 4) -> LayerGraph:
    """Convolutions, then linear layers."""
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
    """A convolution, one beside it or past it, their sum, and a linear layer."""
    width, channels = draw(st.integers(1, 8)), draw(st.integers(2, 32))
    text = INPUT.format(draw(st.integers(1, 16)), 8, width) + CONV.format("stem", channels, "input")
    text += CONV.format("beside", channels, "stem")
    text += "  - {name: sum, op: add, inputs: [beside, stem]}\n  - {name: flat, op: flatten}\n"
    text += LINEAR.format("fc", draw(st.integers(1, 32)), "flat")
    return written(text, draw(st.sampled_from([2, 16, 64])))


networks = st.one_of(chains(), skips())


@st.composite
def rates(draw: st.DrawFn, sides: int) -> tuple[SideRates, ...]:
    """What each side pays, in seconds: links and devices of a few speeds, often with a latency."""
    found = []
    for _ in range(sides):
        element = draw(st.sampled_from([1e-9, 3e-9, 1e-8, 1e-7]))
        once = draw(st.sampled_from([0.0, 1e-6, 1e-5]))
        work = draw(st.floats(1e-13, 1e-10))
        found.append(SideRates(inside=element, between=element, once=once, work=work))
    return tuple(found)


@st.composite
def shares(draw: st.DrawFn, sides: int, least: int = 2) -> tuple[float, ...]:
    """Shares of all sides, none of them very small."""
    weights = draw(st.lists(st.integers(least, 7), min_size=sides, max_size=sides))
    return tuple(weight / sum(weights) for weight in weights)
