"""The forms in which a document is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.errors import UnknownNameError
from hypar.reports.html import fragment
from hypar.reports.markdown import to_markdown
from hypar.reports.tables import to_csv
from hypar.reports.terminal import width
from hypar.reports.text import plain, render

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.document import Document


def _table(document: Document, *, full: bool = False) -> str:
    return plain(render(document, width(), full=full))


def _csv(document: Document, *, full: bool = False) -> str:  # noqa: ARG001 (rows are always whole)
    return to_csv(document)


FORMS: dict[str, Callable[..., str]] = {
    "csv": _csv,
    "html": fragment,
    "markdown": to_markdown,
    "table": _table,
}
"""How a document is written, by name; each takes it and whether to show all notes."""


def rendered(document: Document, form: str, *, full: bool = False) -> str:
    """Return a document in a form.

    Raises:
        UnknownNameError: there is no such form.
    """
    if form not in FORMS:
        raise UnknownNameError("form", form, FORMS)
    return FORMS[form](document, full=full)
