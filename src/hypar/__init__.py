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

TYPE_CHECKING = False  # saves importing typing before the program handles interrupts
if TYPE_CHECKING:
    from typing import Any

    from hypar.errors import HyparError
    from hypar.importers.config_file import from_config
    from hypar.importers.jax_function import from_jax
    from hypar.importers.onnx_file import from_onnx
    from hypar.importers.torch_module import from_torch
    from hypar.machine.accelergy import read_energies
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.load import load_machine
    from hypar.machine.load_heterogeneous import load_heterogeneous
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile, read_profile
    from hypar.network.build import load_model
    from hypar.network.graph import LayerGraph
    from hypar.plan.diff import Change, diff_plans
    from hypar.plan.plan import Plan, read_plan
    from hypar.plan.score import Score
    from hypar.planning.planner import plan_model
    from hypar.planning.replay import score_plan
    from hypar.registry import machines, models, strategies
    from hypar.reports.exports.base import Exported, export_plan
    from hypar.studies.check import Verdict, check_plan
    from hypar.studies.explain import Explanation, explain_plan
    from hypar.studies.explore import Exploration, explore_model
    from hypar.studies.grid import Comparison, Row, compare_strategies
    from hypar.studies.layers import score_layers
    from hypar.studies.profiling.measure import profile_model
    from hypar.studies.sweep import Run, Sweep, sweep_model
    from hypar.studies.verification.result import Verified
    from hypar.studies.verification.run import verify_plan

__version__ = "0.1.0"

_HOMES = {
    "Change": "plan.diff",
    "Comparison": "studies.grid",
    "Explanation": "studies.explain",
    "Exploration": "studies.explore",
    "Exported": "reports.exports.base",
    "HeterogeneousMachine": "machine.heterogeneous",
    "HyparError": "errors",
    "LayerGraph": "network.graph",
    "Machine": "machine.machine",
    "Plan": "plan.plan",
    "Profile": "machine.profiles",
    "Row": "studies.grid",
    "Run": "studies.sweep",
    "Score": "plan.score",
    "Sweep": "studies.sweep",
    "Verdict": "studies.check",
    "Verified": "studies.verification.result",
    "check_plan": "studies.check",
    "compare_strategies": "studies.grid",
    "diff_plans": "plan.diff",
    "explain_plan": "studies.explain",
    "explore_model": "studies.explore",
    "export_plan": "reports.exports.base",
    "from_config": "importers.config_file",
    "from_jax": "importers.jax_function",
    "from_onnx": "importers.onnx_file",
    "from_torch": "importers.torch_module",
    "load_heterogeneous": "machine.load_heterogeneous",
    "load_machine": "machine.load",
    "load_model": "network.build",
    "machines": "registry",
    "models": "registry",
    "plan_model": "planning.planner",
    "profile_model": "studies.profiling.measure",
    "read_energies": "machine.accelergy",
    "read_plan": "plan.plan",
    "read_profile": "machine.profiles",
    "score_layers": "studies.layers",
    "score_plan": "planning.replay",
    "strategies": "registry",
    "sweep_model": "studies.sweep",
    "verify_plan": "studies.verification.run",
}

_FORMER = {"MixedMachine": "HeterogeneousMachine", "load_mixed": "load_heterogeneous"}
"""Former public names, which are still read."""

__all__ = [
    "Change",
    "Comparison",
    "Explanation",
    "Exploration",
    "Exported",
    "HeterogeneousMachine",
    "HyparError",
    "LayerGraph",
    "Machine",
    "Plan",
    "Profile",
    "Row",
    "Run",
    "Score",
    "Sweep",
    "Verdict",
    "Verified",
    "__version__",
    "check_plan",
    "compare_strategies",
    "diff_plans",
    "explain_plan",
    "explore_model",
    "export_plan",
    "from_config",
    "from_jax",
    "from_onnx",
    "from_torch",
    "load_heterogeneous",
    "load_machine",
    "load_model",
    "machines",
    "models",
    "plan_model",
    "profile_model",
    "read_energies",
    "read_plan",
    "read_profile",
    "score_layers",
    "score_plan",
    "strategies",
    "sweep_model",
    "verify_plan",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts fast."""
    name = _FORMER.get(name, name)
    if name not in _HOMES:
        raise AttributeError(f"module 'hypar' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hypar.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(__all__)
