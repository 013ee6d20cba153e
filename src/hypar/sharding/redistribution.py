"""The collectives that change the placement of a tensor."""

from __future__ import annotations

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "neighbours")
"""The collectives that change a placement; ``neighbours`` exchanges halos."""

SUMMED = {"all_reduce": 1 / 2, "reduce_scatter": 1.0}
"""Fraction of the received elements that are terms of a sum; an all-reduce then gathers as many as it added up."""
