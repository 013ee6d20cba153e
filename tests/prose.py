"""Reading text that is broken into lines of a width."""

from __future__ import annotations


def unbroken(text: str) -> str:
    """The words of a text with one space between them, wherever its lines end."""
    return " ".join(text.split())
