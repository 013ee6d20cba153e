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

FORMS: dict[str, Callable[[Document, bool], str]] = {
    "csv": lambda document, _: to_csv(document),
    "html": lambda document, full: fragment(document, full=full),
    "markdown": lambda document, full: to_markdown(document, full=full),
    "table": lambda document, full: plain(render(document, width(), full=full)),
}
"""What writes a document in each form, with all its notes or not."""


def rendered(document: Document, form: str, *, full: bool = False) -> str:
    """Return a document in a form.

    Raises:
        UnknownNameError: there is no such form.
    """
    if form not in FORMS:
        raise UnknownNameError("form", form, FORMS)
    return FORMS[form](document, full)
