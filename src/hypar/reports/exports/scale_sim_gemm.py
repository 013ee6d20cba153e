"""SCALE-Sim's topology file of matrix products: a row for a group of a piece, in all three phases.

A convolution is the product that unfolding its input makes of it. Forward ``M`` are the output's places in all samples, ``K`` the
taps of all input channels, ``N`` the filters. The backward phase gives the terms of each tap, before those of overlapping
windows are added; the gradient sums over the places.

Source: SCALE-Sim 3.0, ``scalesim/topology_utils.py``: ``load_arrays_gemm``; a product of ``M x K`` and ``K x N``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.reports.exports.base import Entry, Export, row

if TYPE_CHECKING:
    from hypar.studies.pieces import Problem

PLACES = ("batch", "height", "width")
TAPS = ("in_channels", "kernel_height", "kernel_width")


def entry(problem: Problem) -> Entry:
    """Return a row."""
    shape = problem.shape
    places, taps = (math.prod(map(shape.size, dims)) for dims in (PLACES, TAPS))
    filters, times = shape.size("out_channels"), shape.size("groups")
    m, n, k = {
        "forward": (places, filters, taps),
        "backward": (places, taps, filters),
        "gradient": (taps, filters, places),
    }[problem.kind]
    return row(problem, times, m * n * k, m, n, k)


plugin = Export("Layer, M, N, K,", entry)
