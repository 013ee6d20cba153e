"""AccPar's three partition types, split by split; unlike accelerators have unlike shares."""

from __future__ import annotations

from hypar.planning.strategies.base import Strategy

plugin: Strategy = Strategy(
    summary="batch, input or output channels, level by level; shares of unlike groups end together",
    source="AccPar (HPCA 2020)",
    space="batch,in_channels,out_channels",
    fork_cost="accpar",
    shares="exact",
)
