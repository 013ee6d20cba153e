"""The conventions by which transfers are counted."""

from __future__ import annotations

PAPER, MOVED, FUSED, DIRECT = "paper", "moved", "fused", "direct"

CONVENTIONS = (PAPER, MOVED, FUSED, DIRECT)
"""``paper``: each level by itself, as HyPar and AccPar count. ``moved``: the elements that a correct execution moves,
which adds partial sums up at once, wherever a device has terms. ``fused``: the same, but sums go straight to the
devices that read them next. ``direct``: the same, but the terms of all errors alone do, as DeePa counts."""

BY_LEVELS = (PAPER, MOVED, FUSED)
"""The conventions by which the costs ``volume``, ``time`` and ``accpar`` count."""
