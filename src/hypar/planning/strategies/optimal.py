"""Joint search over every dim at all levels."""

from __future__ import annotations

from hypar.planning.strategies.base import Strategy

plugin: Strategy = Strategy(
    summary="any dims, all levels jointly",
    source="the optimum that the level-by-level strategies approach",
    space="all",
    search="joint",
)
