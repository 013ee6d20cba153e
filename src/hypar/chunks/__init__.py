"""Chunks: layers whose gradients are exchanged together while the backward phase goes on.

Plain numbers, seconds layer by layer; nothing here knows of machines or networks. Source: Le, Sekiyama, Negishi,
Imai and Kawachiya, Involving CPUs into Multi-GPU Deep Learning (ICPE 2018), which is called CGDP after its training.
"""

from hypar.chunks.best import best_sizes
from hypar.chunks.exchanges import EXCHANGES, Exchange, Sizes, exchange_named, typical
from hypar.chunks.sizes import SizeSearch, Trial, checked_size, groupings, rule_sizes, search_size
from hypar.chunks.times import LayerTimes, StepTimes

__all__ = [
    "EXCHANGES",
    "Exchange",
    "LayerTimes",
    "SizeSearch",
    "Sizes",
    "StepTimes",
    "Trial",
    "best_sizes",
    "checked_size",
    "exchange_named",
    "groupings",
    "rule_sizes",
    "search_size",
    "typical",
]
