"""The collectives that move tensors between placements, and their codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "neighbours")
"""The collectives that change the placement of a tensor; ``neighbours`` exchanges halos."""

CODE = {name: code for code, name in enumerate(COLLECTIVES)}
Codes = NDArray[np.int64]

SUMMED = {"all_reduce": 1 / 2, "reduce_scatter": 1.0}
"""Fraction of the received elements that are terms of a sum; an all-reduce then gathers as many as it added up."""
