"""DeePa: batch, channels, height and width at once, on the best number of devices."""

from __future__ import annotations

from hypar.planning.strategies.base import Strategy
from hypar.sharding.conventions import PAPER

plugin: Strategy = Strategy(
    summary="batch, output channels, height and width at once, on the best number of devices",
    source="DeePa (2018), its configurations and its dynamic programming",
    space="batch*out_channels*height*width",
    cost="deepa",
    graph="operators",
    convention=PAPER,
)
