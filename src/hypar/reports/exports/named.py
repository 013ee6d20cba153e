"""The files of SCALE-Sim and of Timeloop.

SCALE-Sim's topology files have a row for a sample and a group of a convolution, or for a group of a matrix product. Convolutions
are forward phases alone, without padding, so that an image has the rows and columns that the windows cover. A convolution is also
the product that unfolding its input makes of it: forward ``M`` are the output's places in all samples, ``K`` the taps of all input
channels, ``N`` the filters; the backward phase gives the terms of each tap, the gradient sums over the places.

Source: SCALE-Sim 3.0, ``scalesim/topology_utils.py``: ``load_arrays_conv`` and ``topo_calc_hyperparams``; ``load_arrays_gemm``, a
product of ``M x K`` and ``K x N``.

Timeloop's problem, version 0.4, is a file for each phase of a piece, samples and groups included. Dims are those of Timeloop's
convolution, with ``G`` for the groups; ``R``, ``P`` and ``W..`` go along the width, ``S``, ``Q`` and ``H..`` along the height.
The backward phase gives the terms of each tap, ``Terms``, before those of overlapping windows are added.

Source: NVlabs/timeloop, ``problem-shapes/cnn_layer.yaml`` and ``src/workload/shape-models/problem-shape.cpp``;
Accelergy-Project/timeloop-accelergy-exercises, ``example_designs/layer_shapes/problem_base.yaml``, which has the groups.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from hypar.files.yaml_file import format_yaml
from hypar.ops.windows import Window
from hypar.studies.pieces import Entry, Problem

CONVOLUTION = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"
)
PRODUCT = "Layer, M, N, K,"

PLACES, TAPS = ("batch", "height", "width"), ("in_channels", "kernel_height", "kernel_width")
FILTERS = ("out_channels",)
PRODUCTS = {"forward": (PLACES, FILTERS, TAPS), "backward": (PLACES, TAPS, FILTERS),
            "gradient": (TAPS, FILTERS, PLACES)}  # fmt: skip
"""The dims of a product's M, N and K in each phase."""


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
    return _row(CONVOLUTION, problem, times, *covered, *kernel, *channels, windows[0].stride)


def matrices(problem: Problem) -> Entry:
    """Return a row of a phase."""
    m_n_k = (math.prod(map(problem.shape.size, dims)) for dims in PRODUCTS[problem.kind])
    return _row(PRODUCT, problem, problem.shape.size("groups"), *m_n_k)


def _row(head: str, problem: Problem, times: int, *numbers: int) -> Entry:
    """Return a row that counts several times; SCALE-Sim takes ``DP`` for rows of a depthwise layer."""
    name = problem.name.replace("DP", "Dp") + (f"-x{times}" if times > 1 else "")
    return Entry(name, f"{name}, {', '.join(map(str, numbers))},", times, head)


DIMS = {"C": "in_channels", "M": "out_channels", "R": "kernel_width", "S": "kernel_height",
        "N": "batch", "P": "width", "Q": "height", "G": "groups"}  # fmt: skip
"""Each dim of the problem, and the op's dim."""

TENSORS = {"Weights": "C M R S G", "Inputs": "N C R*Wdilation+P*Wstride S*Hdilation+Q*Hstride G",
           "Outputs": "N M Q P G", "Terms": "N C R S P Q G"}  # fmt: skip
"""The dims of each tensor, a sum of terms each, which may have a coefficient."""

SPACES = {"forward": ("Weights", "Inputs", "Outputs"), "backward": ("Weights", "Outputs", "Terms"),
          "gradient": ("Inputs", "Outputs", "Weights")}  # fmt: skip
"""The tensors of each phase, the result last."""


def timeloop(problem: Problem) -> Entry:
    """Return the file of a problem."""
    spaces: list[dict[str, Any]] = []
    for name in SPACES[problem.kind]:
        dims = ([term.split("*") for term in dim.split("+")] for dim in TENSORS[name].split())
        spaces.append({"name": name, "projection": [*dims]})
    spaces[-1]["read_write"] = True
    factors = {}
    for dim, factor in product(("width", "height"), ("stride", "dilation")):
        factors[f"{dim[0].upper()}{factor}"] = getattr(problem.shape.windows.get(dim), factor, 1)
    known = [{"name": name, "default": 1} for name in factors]
    shape = {
        "name": f"conv_{problem.kind}", "dimensions": [*DIMS], "coefficients": known, "data_spaces": spaces,
    }  # fmt: skip
    instance = {dim: problem.shape.size(own) for dim, own in DIMS.items()}
    data = {"problem": {"version": 0.4, "shape": shape, "instance": instance | factors}}
    return Entry(f"{problem.name}.yaml", format_yaml(data))


plugins = {"scale_sim": convolution, "scale_sim_gemm": matrices, "timeloop": timeloop}
