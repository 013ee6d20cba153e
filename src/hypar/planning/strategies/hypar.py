"""HyPar: data or model parallelism for each layer at each level, level by level."""

from __future__ import annotations

from hypar.planning.strategies.base import Strategy

plugin: Strategy = Strategy(
    summary="batch or input channels, level by level",
    source="HyPar (HPCA 2019), Algorithms 1 and 2",
    space="batch,in_channels",
)
