"""SCALE-Sim's topology file of convolutions: a row for a sample and a group of a piece's forward phase.

Source: SCALE-Sim 3.0, ``scalesim/topology_utils.py``: ``load_arrays_conv`` and ``topo_calc_hyperparams``. It knows no padding,
so an image has the rows and columns that the windows cover, and one stride for both dims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.reports.exports.base import Entry, Export, row_name

if TYPE_CHECKING:
    from hypar.studies.pieces import Problem

SPATIAL = ("height", "width")


class ScaleSim:
    """Rows of convolutions."""

    head = (
        "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"
    )

    def refused(self, problem: Problem) -> str:
        """Return why a piece is no such convolution."""
        if problem.kind != "forward":
            return "the topology has forward convolutions alone, see scale_sim_gemm"
        windows = problem.shape.windows.values()
        if len({window.stride for window in windows}) > 1:
            return "the topology has one stride for height and width, see scale_sim_gemm"
        if any(window.dilation > 1 for window in windows):
            return "the topology has no dilation, see scale_sim_gemm"
        return ""

    def entry(self, problem: Problem) -> Entry:
        """Return a row; a linear layer is a convolution of 1x1 on an image that has the samples as its rows."""
        shape = problem.shape
        if shape.windows:
            windows = [shape.windows[dim] for dim in SPATIAL]
            places = [shape.size(dim) for dim in SPATIAL]
            covered = [
                (size - 1) * window.stride + window.extent
                for size, window in zip(places, windows, strict=True)
            ]
            kernel, stride = [window.kernel for window in windows], windows[0].stride
            times = shape.size("batch") * shape.size("groups")
        else:
            places = covered = [shape.size("batch"), 1]
            kernel, stride, times = [1, 1], 1, 1
        channels = [shape.size("in_channels"), shape.size("out_channels")]
        macs = places[0] * places[1] * kernel[0] * kernel[1] * channels[0] * channels[1]
        name = row_name(problem, times)
        numbers = [*covered, *kernel, *channels, stride]
        return Entry(name, times, macs, f"{name}, {', '.join(map(str, numbers))},")


plugin: Export = ScaleSim()
