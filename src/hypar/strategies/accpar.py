"""AccPar's three partition types on like accelerators, level by level."""

from __future__ import annotations

from hypar.strategies.base import Strategy

plugin: Strategy = Strategy(
    summary="batch, input or output channels, level by level, equal shares",
    source="AccPar (HPCA 2020)",
    space="batch,in_channels,out_channels",
)
