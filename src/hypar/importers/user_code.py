"""Code of others: the user's, found by its name, run, and every failure told in one line; packages of other frameworks."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hypar.errors import HyparError, ModelError, OptionError, UnknownNameError, reason, shown

if TYPE_CHECKING:
    from collections.abc import Iterator


def named_object(name: str) -> Any:
    """Return what ``my_module:build`` names, after running the module as ``python -m my_module`` finds it.

    Raises:
        ModelError: the name is of another form, no module has it, or the module fails.
        UnknownNameError: the module has no such attribute.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module_name.split("."), *attribute.split("."))):
        raise ModelError("import", f"found {shown(name)}", "a module and a name in it, as my_module:build")
    folder = os.getcwd()  # noqa: PTH109 (an entry of sys.path is a text)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    with one_line(module_name):
        try:
            found = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise
            where = "the working folder or an installed package"
            raise ModelError("import", f"no module {shown(module_name)}", f"a module of {where}") from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UnknownNameError(
                "name", part, [word for word in vars(found) if word[0] != "_"], module_name
            )
        found = getattr(found, part)
    return found


@contextmanager
def one_line(where: str, doing: str = "raised") -> Iterator[None]:
    """Turn whatever the user's code raises into an error of one line."""
    try:
        yield
    except (HyparError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise ModelError(where, f"{doing} {reason(error)}") from error


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
