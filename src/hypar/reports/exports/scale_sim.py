"""SCALE-Sim's topology file of convolutions: a row for a sample and a group of a piece's forward phase.

Source: SCALE-Sim 3.0, ``scalesim/topology_utils.py``: ``load_arrays_conv`` and ``topo_calc_hyperparams``. It knows no padding,
so an image has the rows and columns that the windows cover, and one stride for both dims.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.reports.exports.base import Entry, Export, row

if TYPE_CHECKING:
    from hypar.studies.pieces import Problem

SPATIAL = ("height", "width")


HEAD = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"


def entry(problem: Problem) -> Entry | str:
    """Return a row; a linear layer is a convolution of 1x1 on an image that has the samples as its rows."""
    shape, windows = problem.shape, [*problem.shape.windows.values()]
    if problem.kind != "forward":
        return "the topology has forward convolutions alone, see scale_sim_gemm"
    if len({window.stride for window in windows}) > 1:
        return "the topology has one stride for height and width, see scale_sim_gemm"
    if any(window.dilation > 1 for window in windows):
        return "the topology has no dilation, see scale_sim_gemm"
    places, covered = [shape.size("batch"), 1], [shape.size("batch"), 1]
    kernel, stride, times = [1, 1], 1, 1
    if windows:
        windows = [shape.windows[dim] for dim in SPATIAL]
        places, kernel = [shape.size(dim) for dim in SPATIAL], [window.kernel for window in windows]
        pairs = zip(places, windows, strict=True)
        covered = [(size - 1) * window.stride + window.extent for size, window in pairs]
        stride, times = windows[0].stride, shape.size("batch") * shape.size("groups")
    channels = [shape.size("in_channels"), shape.size("out_channels")]
    macs = math.prod([*places, *kernel, *channels])
    return row(problem, times, macs, *covered, *kernel, *channels, stride)


plugin = Export(HEAD, entry)
