"""SCALE-Sim's topology file of matrix products: a row for a group of a piece, in all three phases.

A convolution is the product that unfolding its input makes of it. Forward ``M`` are the output's places in all samples, ``K`` the
taps of all input channels, ``N`` the filters. The backward phase gives the terms of each tap, before those of overlapping
windows are added; the gradient sums over the places.

Source: SCALE-Sim 3.0, ``scalesim/topology_utils.py``: ``load_arrays_gemm``; a product of ``M x K`` and ``K x N``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.reports.exports.base import Entry, Export, row_name

if TYPE_CHECKING:
    from hypar.studies.pieces import Problem

PLACES = ("batch", "height", "width")
TAPS = ("in_channels", "kernel_height", "kernel_width")


class ScaleSimGemm:
    """Rows of matrix products."""

    head = "Layer, M, N, K,"

    def refused(self, problem: Problem) -> str:  # noqa: ARG002
        """Return nothing: every phase of every piece is a product."""
        return ""

    def entry(self, problem: Problem) -> Entry:
        """Return a row."""
        shape = problem.shape
        places, taps = (math.prod(shape.size(dim) for dim in dims) for dims in (PLACES, TAPS))
        filters, times = shape.size("out_channels"), shape.size("groups")
        m, n, k = {
            "forward": (places, filters, taps),
            "backward": (places, taps, filters),
            "gradient": (taps, filters, places),
        }[problem.kind]
        name = row_name(problem, times)
        return Entry(name, times, m * n * k, f"{name}, {m}, {n}, {k},")


plugin: Export = ScaleSimGemm()
