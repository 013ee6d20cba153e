"""Packages of other frameworks, imported where they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from hypar.errors import OptionError


def package(name: str, extra: str) -> Any:
    """Import a module of an optional package.

    Raises:
        OptionError: the package is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        found = f"the package {error.name or name} is not installed"
        raise OptionError("import", found, hint=f"pip install '.[{extra}]' in a clone of hypar") from error
