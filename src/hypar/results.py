"""Results that show themselves: as a data frame, as a part of a notebook, and as a picture.

A result knows nothing of how it looks. A *view*, a module of ``reports/views`` that is found by name when it is asked for,
does; so importing hypar imports neither pandas nor matplotlib, and no package imports one above it.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hypar.errors import OptionError
from hypar.registry import load_plugin

if TYPE_CHECKING:
    from hypar.files.canvas import Drawing


class Result:
    """A result that has a view."""

    __slots__ = ()
    _view: ClassVar[str]

    def to_frame(self) -> Any:
        """Return its rows as a pandas data frame with plain numbers and texts.

        Raises:
            OptionError: pandas is not installed.
        """
        if find_spec("pandas") is None:
            raise OptionError("to_frame", "pandas is not installed", hint="pip install pandas")
        return importlib.import_module("pandas").DataFrame(view_of(self).rows(self))

    def plot(self, file: str | Path | None = None) -> Any:
        """Draw it with matplotlib, and return the figure, which a notebook shows.

        Args:
            file: a file to write it to as well, as .png, .svg or .pdf.

        Raises:
            OptionError: matplotlib is not installed, or the file ending is not a supported format.
            DocumentError: the folder is missing or not writable.
        """
        from hypar.files.canvas import require_matplotlib, require_plot, save  # noqa: PLC0415 (slow, and rarely used)

        if file is None:
            require_matplotlib()
        else:
            require_plot(file)
        drawing: Drawing = view_of(self).drawing(self)
        picture = drawing.picture()
        if file is not None:
            save(picture, Path(file))
        return picture

    def _repr_html_(self) -> str:
        return str(view_of(self).html(self))


def view_of(result: Result) -> Any:
    """Return the view of a result."""
    return load_plugin("views", result._view)
