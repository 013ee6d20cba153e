"""The search at a fork: what its sides do to every layer, and the share of each."""

from __future__ import annotations

from hypar.forking.by_layer import Offer, by_layer, settled, settled_costs
from hypar.forking.common import Decision, best, search
from hypar.forking.fork import Fork, fork_of
from hypar.forking.quadratics import Line, Quadratics, quadratics_of
from hypar.plan.splits import RULES

__all__ = [
    "RULES",
    "Decision",
    "Fork",
    "Line",
    "Offer",
    "Quadratics",
    "best",
    "by_layer",
    "fork_of",
    "quadratics_of",
    "search",
    "settled",
    "settled_costs",
]
