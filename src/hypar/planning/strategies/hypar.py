"""HyPar: data or model parallelism for each layer at each level, level by level."""

from __future__ import annotations

from hypar.planning.strategies.base import Strategy
from hypar.sharding.conventions import PAPER

plugin: Strategy = Strategy(
    summary="batch or input channels, level by level",
    source="HyPar (HPCA 2019), Algorithms 1 and 2",
    space="batch,in_channels",
    convention=PAPER,
)
