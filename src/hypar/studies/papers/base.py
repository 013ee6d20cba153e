"""The interface of reproductions: each returns a page of sections, with tables and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.studies.page import Page


class Reproduction(Protocol):
    """The reproduction of a paper's evaluation."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Compute the page.

        Args:
            progress: a function that takes the number of finished sections and the number of all.
        """


def load_reproduction(name: str) -> Reproduction:
    """Load the reproduction of a paper.

    Raises:
        UnknownNameError: the name is unknown.
    """
    found: Reproduction = load_plugin("reproductions", name)
    return found
