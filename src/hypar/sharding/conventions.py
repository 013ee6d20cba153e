"""The conventions by which transfers are counted."""

from __future__ import annotations

from hypar.errors import OptionError

PAPER, MOVED, FUSED, DIRECT = "paper", "moved", "fused", "direct"

CONVENTIONS = (PAPER, MOVED, FUSED, DIRECT)
"""``paper``: each level by itself, as HyPar and AccPar count. ``moved``: the elements that a correct execution moves,
which adds partial sums up at once, wherever a device has terms. ``fused``: the same, but sums go straight to the
devices that read them next. ``direct``: whole elements at one level, as DeePa counts."""

BY_LEVELS = (PAPER, MOVED, FUSED)
"""The conventions by which the costs ``volume``, ``time`` and ``accpar`` count."""

BY_PRODUCTS = (MOVED, FUSED, DIRECT)
"""Those by which a level moves what the levels above have not brought, so that an amount is a product over levels."""


def require_convention(convention: str) -> None:
    """Refuse a convention by which no cost of several levels counts.

    Raises:
        OptionError: it is not one of ``BY_LEVELS``.
    """
    if convention not in BY_LEVELS:
        raise OptionError("convention", f"found {convention!r}", ", ".join(BY_LEVELS))
