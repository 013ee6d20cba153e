"""The conventions by which transfers are counted, and the collectives that move tensors between placements, with their codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PAPER, MOVED, FUSED, DIRECT = "paper", "moved", "fused", "direct"

CONVENTIONS = (PAPER, MOVED, FUSED, DIRECT)
"""``paper``: each level by itself, as HyPar and AccPar count. ``moved``: the elements that a correct execution moves,
which adds partial sums up at once, wherever a device has terms. ``fused``: the same, but sums go straight to the
devices that read them next. ``direct``: the same, but the terms of all errors alone do, as DeePa counts."""

BY_LEVELS = (PAPER, MOVED, FUSED)
"""The conventions by which the costs ``volume``, ``time`` and ``accpar`` count."""

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "neighbours")
"""The collectives that change the placement of a tensor; ``neighbours`` exchanges halos."""

CODE = {name: code for code, name in enumerate(COLLECTIVES)}
Codes = NDArray[np.int64]

SUMMED = {"all_reduce": 1 / 2, "reduce_scatter": 1.0}
"""Fraction of the received elements that are terms of a sum; an all-reduce then gathers as many as it added up."""
