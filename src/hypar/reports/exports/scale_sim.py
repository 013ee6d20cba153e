"""SCALE-Sim's topology files: a row for a sample and a group of a convolution, or for a group of a matrix product.

Of convolutions there are forward phases alone. They know no padding, so an image has the rows and columns that the windows
cover, and one stride for both dims.

A convolution is also the product that unfolding its input makes of it. Forward ``M`` are the output's places in all samples, ``K``
the taps of all input channels, ``N`` the filters. The backward phase gives the terms of each tap, before those of overlapping
windows are added; the gradient sums over the places.

Source: SCALE-Sim 3.0, ``scalesim/topology_utils.py``: ``load_arrays_conv`` and ``topo_calc_hyperparams``; ``load_arrays_gemm``, a
product of ``M x K`` and ``K x N``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.ops.windows import Window
from hypar.reports.exports.base import Entry

if TYPE_CHECKING:
    from hypar.studies.pieces import Problem

CONVOLUTIONS = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"
)
PRODUCTS = "Layer, M, N, K,"

SIDES = (("batch", "height", "width"), ("in_channels", "kernel_height", "kernel_width"), ("out_channels",))
"""The dims of the places, the taps and the filters."""


def convolution(problem: Problem) -> Entry | str:
    """Return a row; a linear layer is a convolution of 1x1 on an image that has the samples as its rows."""
    shape, samples, times = problem.shape, problem.shape.size("batch"), problem.shape.size("groups")
    if problem.kind != "forward":
        return "the topology has forward convolutions alone, see scale_sim_gemm"
    windows, places = [Window(kernel=1)] * 2, [samples, 1]
    if shape.windows:
        windows = [shape.windows[dim] for dim in ("height", "width")]
        places, times = [shape.size("height"), shape.size("width")], times * samples
    if windows[0].stride != windows[1].stride:
        return "the topology has one stride for height and width, see scale_sim_gemm"
    if any(window.dilation > 1 for window in windows):
        return "the topology has no dilation, see scale_sim_gemm"
    each = zip(places, windows, strict=True)
    covered = [(size - 1) * window.stride + window.extent for size, window in each]
    kernel = [window.kernel for window in windows]
    channels = [shape.size("in_channels"), shape.size("out_channels")]
    return _row(CONVOLUTIONS, problem, times, *covered, *kernel, *channels, windows[0].stride)


def product(problem: Problem) -> Entry:
    """Return a row of a phase."""
    places, taps, filters = (math.prod(map(problem.shape.size, dims)) for dims in SIDES)
    m_n_k = {
        "forward": (places, filters, taps),
        "backward": (places, taps, filters),
        "gradient": (taps, filters, places),
    }
    return _row(PRODUCTS, problem, problem.shape.size("groups"), *m_n_k[problem.kind])


def _row(head: str, problem: Problem, times: int, *numbers: int) -> Entry:
    """Return a row that counts several times; SCALE-Sim takes ``DP`` for rows of a depthwise layer."""
    name = problem.name.replace("DP", "Dp") + (f"-x{times}" if times > 1 else "")
    return Entry(name, f"{name}, {', '.join(map(str, numbers))},", times, head)


plugins = {"scale_sim": convolution, "scale_sim_gemm": product}
