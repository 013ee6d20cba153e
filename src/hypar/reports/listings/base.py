"""Building blocks of listings: plain data, tables and CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Note
from hypar.reports.columns import Column, Sheet

if TYPE_CHECKING:
    from collections.abc import Container, Sequence


Data = list[dict[str, Any]]


def make_table(
    heads: Sequence[str], align: str, *, keys: int = 1, prose: Container[str] = (), turns: bool = False
) -> Sheet:
    """Return a table without rows.

    Args:
        heads: the heads of its columns; a column with an empty one is left out where it is empty.
        align: a letter, l or r, for each column; the last letter holds for the rest.
        keys: the number of columns that name its rows.
        prose: the heads of columns whose cells may have several lines.
        turns: whether its rows may become columns.
    """
    return Sheet(
        columns=[
            Column(
                head=head,
                cells=(),
                right=align[min(number, len(align) - 1)] == "r",
                key=number < keys,
                prose=head in prose,
            )
            for number, head in enumerate(heads)
        ],
        turns=turns,
    )


TOO_BIG = "too big"
"""The word beside a plan that does not fit."""


def too_big_note(*, shown: bool) -> list[Note]:
    """Explain the word if it is shown."""
    return [Note(TOO_BIG, "does not fit the memory of a device")] if shown else []
