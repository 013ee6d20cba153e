"""hypar decides how each layer of a neural network is cut across each level of an accelerator array.

Example:
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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hypar.check import Verdict, check_plan
    from hypar.comparison import Row, compare_strategies
    from hypar.diff import Change, diff_plans
    from hypar.errors import HyparError
    from hypar.graph import LayerGraph, load_model
    from hypar.plan import Plan, read_plan
    from hypar.planner import plan_model

__version__ = "0.1.0"

_HOMES = {
    "Change": "diff",
    "HyparError": "errors",
    "LayerGraph": "graph",
    "Plan": "plan",
    "Row": "comparison",
    "Verdict": "check",
    "check_plan": "check",
    "compare_strategies": "comparison",
    "diff_plans": "diff",
    "load_model": "graph",
    "plan_model": "planner",
    "read_plan": "plan",
}

__all__ = [
    "Change",
    "HyparError",
    "LayerGraph",
    "Plan",
    "Row",
    "Verdict",
    "__version__",
    "check_plan",
    "compare_strategies",
    "diff_plans",
    "load_model",
    "plan_model",
    "read_plan",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hypar' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hypar.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """The public names, whether used yet or not."""
    return sorted(__all__)
