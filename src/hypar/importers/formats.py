"""The frameworks whose networks are imported, by name; the user's code, found by its name and run, every failure in one line."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import HyparError, ModelError, OptionError, UnknownNameError, reason, shown
from hypar.ops.base import LARGEST_SIZE

if TYPE_CHECKING:
    from hypar.importers.imported import Imported


def named_object(name: str) -> Any:
    """Return what ``my_module:build`` names, after running the module as ``python -m my_module`` finds it.

    Raises ``UnknownNameError`` for no such attribute, ``ModelError`` for another form, no module, or one that fails.
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
            known = [word for word in vars(found) if word[0] != "_"]
            raise UnknownNameError("name", part, known, module_name)
        found = getattr(found, part)
    return found


def built(network: str, framework: str | None) -> Any:
    """Return what ``my_module:build`` names, or what that function returns, without memory for weights of PyTorch.

    Raises ``InputError`` where the framework is known and not installed, the module is not found, or the user's code fails.
    """
    if framework is not None:
        package(framework, framework)
    found, torch = named_object(network), sys.modules.get("torch")
    if not callable(found) or (torch is not None and isinstance(found, torch.nn.Module)):
        return found
    with one_line(network), warnings.catch_warnings(), torch.device("meta") if torch else nullcontext():
        warnings.simplefilter("ignore")
        return found()


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
    """Import a module of an optional package; raises ``OptionError`` where that is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        found = f"the package {error.name or name} is not installed"
        raise OptionError("import", found, hint=f"pip install '.[{extra}]' in a clone of hypar") from error


MODULES = {"torch": "torch_module", "onnx": "onnx_file", "jax": "jax_function", "config": "config_file"}
FORMATS = tuple(MODULES)

BATCH = 256
"""Samples in a mini-batch, unless another number is asked for."""

EXAMPLE = 2
"""Samples of an example that is made for a command."""

WHOLE = ":int64"
"""Behind the shape of an input of whole numbers, as tokens are."""

Samples = Sequence[tuple[tuple[int, ...], bool]]
"""The shape of an example of each input, and whether it is of whole numbers."""

_NAMED = re.compile(r"[\w.]+:[\w.]+")
_SHAPE = re.compile(rf"(0*[1-9][0-9]{{0,6}}(?:x0*[1-9][0-9]{{0,6}})*)({WHOLE})?", re.ASCII)


def framework_of(network: str) -> str | None:
    """Return the format of a file of another framework: ``onnx`` by its ending, ``config`` for JSON with a ``model_type``; else None."""
    file = Path(network)
    if file.suffix == ".json" and file.is_file():
        with suppress(OSError, ValueError, RecursionError):
            content = json.loads(file.read_text(encoding="utf-8"))
            return "config" if isinstance(content, dict) and "model_type" in content else None
    return "onnx" if file.suffix == ".onnx" else None


def imported(
    source: str,
    inputs: Sequence[str],
    framework: str | None = None,
    *,
    batch: int | None = None,
    sequence: int | None = None,
    partial: bool = False,
) -> Imported:
    """Return the network of a file or of ``my_module:build``, from what a command line says.

    Its framework, one of ``FORMATS``, follows from the file or from what the function returns unless it is given; the shape of a
    sample of each input, as ``3x224x224`` or ``128:int64``, is given for a function or a module, ``sequence`` for a config.
    Raises ``InputError`` where the framework is not found or not installed, or the network cannot be read or said.
    """
    if source.endswith(".py"):
        allowed = f"a function of it, as {source[:-3].replace('/', '.')}:build"
        raise OptionError("model", f"found {source}", allowed)
    kind = framework or framework_of(source)
    code = _NAMED.fullmatch(source) is not None and not Path(source).exists()
    named = kind in {"torch", "jax"} or (kind is None and code)
    if inputs and not named:
        raise OptionError("--input", f"given for {kind or source}", "none, as the file says it")
    if kind is None and not named:
        allowed = "a file .onnx, a config.json of Hugging Face, or my_module:build"
        raise OptionError("import", f"found {source}", allowed)
    if named and not inputs:
        raise OptionError("--input", "no shape is given", "the shape of a sample, as --input 3x224x224")
    samples = [*map(_sample, inputs)]
    batch = BATCH if batch is None else batch
    if not 1 <= batch <= LARGEST_SIZE:
        raise OptionError("batch", f"found {batch}", f"a whole number from 1 to {LARGEST_SIZE:,}")
    made = built(source, framework) if named else source
    kind = kind or ("jax" if isinstance(made, tuple) else "torch")
    if sequence is not None and kind != "config":
        raise OptionError("--sequence", f"given for {kind}", "none but for config")
    run: Any = importlib.import_module(f"hypar.importers.{MODULES[kind]}")
    found: Imported
    if kind == "config":
        found = run.read_config(source, batch=batch, sequence=sequence, partial=partial)
        return replace(found, notes=(f"{found.graph().num_parameters:,} parameters", *found.notes))
    trace = run.capture_built(made, samples, source) if named else run.capture(source)
    found = run.imported(trace, batch=batch, partial=partial)
    return found


def _sample(text: str) -> tuple[tuple[int, ...], bool]:
    found = _SHAPE.fullmatch(text)
    if found is None:
        allowed = "the shape of a sample, as 3x224x224 or 784, or 128:int64 for tokens"
        raise OptionError("--input", f"found {shown(text)}", allowed)
    return (EXAMPLE, *map(int, found[1].split("x"))), found[2] is not None
