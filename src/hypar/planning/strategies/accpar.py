"""AccPar's three partition types, split by split; heterogeneous accelerators have different shares."""

from __future__ import annotations

from hypar.planning.strategies.base import Strategy
from hypar.sharding.conventions import PAPER

plugin: Strategy = Strategy(
    summary="batch, input or output channels, level by level; uneven shares let device groups end together",
    source="AccPar (HPCA 2020)",
    space="batch,in_channels,out_channels",
    heterogeneous_cost="accpar",
    shares="exact",
    convention=PAPER,
)
