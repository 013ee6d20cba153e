"""SCALE-Sim's topology file of matrix products: a row for a group of a piece, in all three phases.

A convolution is the product that unfolding its input makes of it. Forward ``M`` are the output's places in all samples, ``K`` the
taps of all input channels, ``N`` the filters. The backward phase gives the terms of each tap, before those of overlapping
windows are added; the gradient sums over the places.

Source: SCALE-Sim 3.0, ``scalesim/topology_utils.py``: ``load_arrays_gemm``; a product of ``M x K`` and ``K x N``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.reports.exports.base import Entry, row

if TYPE_CHECKING:
    from hypar.studies.pieces import Problem

SIDES = (("batch", "height", "width"), ("in_channels", "kernel_height", "kernel_width"), ("out_channels",))
"""The dims of the places, the taps and the filters."""


def entry(problem: Problem) -> Entry:
    """Return a row."""
    places, taps, filters = (math.prod(map(problem.shape.size, dims)) for dims in SIDES)
    m_n_k = {
        "forward": (places, filters, taps),
        "backward": (places, taps, filters),
        "gradient": (taps, filters, places),
    }
    return row("Layer, M, N, K,", problem, problem.shape.size("groups"), *m_n_k[problem.kind])


plugin = entry
