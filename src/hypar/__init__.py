"""hypar decides how each layer of a neural network is cut across each level of an accelerator array.

Examples:
    >>> import hypar
    >>> model = hypar.load_model("vgg16")
    >>> plan = hypar.plan_model(model, levels=4)
    >>> plan.dims("fc1")
    ('in_channels', 'in_channels', 'in_channels', 'in_channels')
    >>> [row.name for row in hypar.compare_strategies(model, levels=4, strategies=["dp", "hypar"])]
    ['dp', 'hypar']
"""

from __future__ import annotations

import importlib
from pathlib import Path

__version__ = "0.1.0"

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").replace(",", "")
_IMPORTS = (line.split() for line in _STUB.splitlines() if line.startswith("from "))
_HOMES = {name: module for _, module, _, *names in _IMPORTS for name in names[::3]}
"""The module of each public name, as the stub has them for type checkers."""

__all__ = sorted([*_HOMES, "__version__"])  # noqa: PLE0605 (a list)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that the command line starts fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hypar' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return list(__all__)
