"""SCALE-Sim's topology file of convolutions: a row for a sample and a group of a piece's forward phase.

Source: SCALE-Sim 3.0, ``scalesim/topology_utils.py``: ``load_arrays_conv`` and ``topo_calc_hyperparams``. It knows no padding,
so an image has the rows and columns that the windows cover, and one stride for both dims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.ops.windows import Window
from hypar.reports.exports.base import Entry, row

if TYPE_CHECKING:
    from hypar.studies.pieces import Problem

HEAD = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"


def entry(problem: Problem) -> Entry | str:
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
    covered = [
        (size - 1) * window.stride + window.extent for size, window in zip(places, windows, strict=True)
    ]
    kernel = [window.kernel for window in windows]
    channels = [shape.size("in_channels"), shape.size("out_channels")]
    return row(HEAD, problem, times, *covered, *kernel, *channels, windows[0].stride)


plugin = entry
