"""The frameworks whose networks are imported, by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hypar.errors import OptionError
from hypar.network.ops.base import LARGEST_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.importers.imported import Imported

FORMATS = ("torch", "onnx", "jax", "config")
MODULES = {"torch": "torch_module", "onnx": "onnx_file", "jax": "jax_function", "config": "config_file"}
FILES = frozenset({"onnx", "config"})
"""Formats of files, which say the sizes of samples."""

BATCH = 256
"""Samples in a mini-batch, unless another number is asked for."""


def import_network(
    framework: str,
    network: str,
    inputs: Sequence[tuple[int, ...]],
    *,
    tokens: frozenset[int] = frozenset(),
    batch: int | None = None,
    sequence: int | None = None,
    partial: bool = False,
) -> Imported:
    """Return a network of another framework.

    Args:
        framework: one of ``FORMATS``.
        network: a file, or ``my_module:build``.
        inputs: shape of one sample of each argument of a function or a module.
        tokens: numbers of the arguments that are whole numbers.
        batch: samples in a mini-batch.
        sequence: positions of a sample of a config's network.
        partial: whether to accept a network of which little is recognised.

    Raises:
        InputError: the framework is not installed, or the network cannot be read or said.
    """
    batch = BATCH if batch is None else batch
    if not 1 <= batch <= LARGEST_SIZE:
        raise OptionError("batch", f"found {batch}", f"a whole number from 1 to {LARGEST_SIZE:,}")
    if (framework in FILES) == bool(inputs):
        allowed = "none, as the file says it" if inputs else "the shape of a sample, as --input 3x224x224"
        raise OptionError("--input", f"given for {framework}" if inputs else "no shape is given", allowed)
    run: Any = importlib.import_module(f"hypar.importers.{MODULES[framework]}")
    found: Imported
    if framework == "config":
        if partial:
            raise OptionError("--partial", "given for config", "none, as all of a config is recognised")
        found = run.import_named(network, batch=batch, sequence=sequence)
        return found
    if sequence is not None:
        raise OptionError("--sequence", f"given for {framework}", "none but for config")
    fed = () if framework in FILES else (inputs, tokens)
    found = run.import_named(network, *fed, batch=batch, partial=partial)
    return found
