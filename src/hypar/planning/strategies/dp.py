"""Data parallelism everywhere: the baseline."""

from __future__ import annotations

from hypar.planning.strategies.base import Strategy

plugin: Strategy = Strategy(
    summary="every layer cut in the batch",
    source="the common baseline; Type-I of AccPar",
    space="batch",
)
