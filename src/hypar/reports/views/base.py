"""The interface of views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from hypar.files.canvas import Drawing

Seen = TypeVar("Seen", contravariant=True)  # noqa: PLC0105 (the protocol is the only place)


class View(Protocol[Seen]):
    """The forms in which a result is shown outside the terminal."""

    def rows(self, result: Seen) -> list[dict[str, Any]]:
        """Return the rows of its data frame, with plain numbers and texts."""

    def html(self, result: Seen) -> str:
        """Return an HTML fragment for a notebook."""

    def drawing(self, result: Seen) -> Drawing:
        """Return the data of its picture."""


def times(gain: float | None) -> str:
    """Format a gain over a baseline: how many times less, in percent if it is below 1.1.

    Example:
        >>> times(3.3333), times(1.0225), times(0.992), times(1.0), times(None)
        ('3.33×', '2.2 % less', '0.8 % more', 'alike', '')
    """
    if not gain:
        return ""
    if gain >= 1.1:
        return f"{gain:.3g}×"
    change = 1 / gain - 1
    return "alike" if abs(change) < 1e-3 else f"{abs(change) * 100:.1f} % {'more' if change > 0 else 'less'}"
