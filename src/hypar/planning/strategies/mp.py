"""Model parallelism everywhere."""

from __future__ import annotations

from hypar.planning.strategies.base import Strategy

plugin: Strategy = Strategy(
    summary="every layer cut in its input channels",
    source="HyPar (HPCA 2019), section 6.2",
    space="in_channels",
)
