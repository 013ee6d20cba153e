"""What a reproduction is: a page of sections, each with a table and perhaps a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.studies.page import Page


class Reproduction(Protocol):
    """A paper's evaluation."""

    def run(self, progress: Callable[[int, int], None]) -> Page:
        """Compute everything.

        Args:
            progress: told how many of how many parts are done.
        """


def load_reproduction(name: str) -> Reproduction:
    """The reproduction of a paper.

    Raises:
        UnknownNameError: there is none.
    """
    found: Reproduction = load_plugin("reproductions", name)
    return found
