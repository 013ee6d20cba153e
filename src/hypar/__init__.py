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

TYPE_CHECKING = False  # saves importing typing
if TYPE_CHECKING:
    from typing import Any

    from hypar.errors import HyparError as HyparError
    from hypar.importers.config_file import from_config as from_config
    from hypar.importers.jax_function import from_jax as from_jax
    from hypar.importers.onnx_file import from_onnx as from_onnx
    from hypar.importers.torch_module import from_torch as from_torch
    from hypar.machine.accelergy import read_energies as read_energies
    from hypar.machine.heterogeneous import HeterogeneousMachine as HeterogeneousMachine
    from hypar.machine.load import load_machine as load_machine
    from hypar.machine.load_heterogeneous import load_heterogeneous as load_heterogeneous
    from hypar.machine.machine import Machine as Machine
    from hypar.machine.profiles import Profile as Profile, read_profile as read_profile
    from hypar.network.build import load_model as load_model
    from hypar.network.graph import LayerGraph as LayerGraph
    from hypar.plan.diff import Change as Change, diff_plans as diff_plans
    from hypar.plan.plan import Plan as Plan, read_plan as read_plan
    from hypar.plan.score import Score as Score
    from hypar.planning.planner import plan_model as plan_model
    from hypar.planning.replay import score_plan as score_plan
    from hypar.registry import machines as machines, models as models, strategies as strategies
    from hypar.reports.exports.base import Exported as Exported, export_plan as export_plan
    from hypar.studies.check import Verdict as Verdict, check_plan as check_plan
    from hypar.studies.explain import Explanation as Explanation, explain_plan as explain_plan
    from hypar.studies.explore import Exploration as Exploration, explore_model as explore_model
    from hypar.studies.grid import (
        Comparison as Comparison,
        Run as Run,
        compare_strategies as compare_strategies,
    )
    from hypar.studies.profile import profile_model as profile_model
    from hypar.studies.step import score_layers as score_layers
    from hypar.studies.sweep import Sweep as Sweep, sweep_model as sweep_model
    from hypar.studies.verify import Verified as Verified, verify_plan as verify_plan

__version__ = "0.1.0"

_PUBLIC = {
    "errors": "HyparError",
    "importers.config_file": "from_config",
    "importers.jax_function": "from_jax",
    "importers.onnx_file": "from_onnx",
    "importers.torch_module": "from_torch",
    "machine.accelergy": "read_energies",
    "machine.heterogeneous": "HeterogeneousMachine",
    "machine.load": "load_machine",
    "machine.load_heterogeneous": "load_heterogeneous",
    "machine.machine": "Machine",
    "machine.profiles": "Profile read_profile",
    "network.build": "load_model",
    "network.graph": "LayerGraph",
    "plan.diff": "Change diff_plans",
    "plan.plan": "Plan read_plan",
    "plan.score": "Score",
    "planning.planner": "plan_model",
    "planning.replay": "score_plan",
    "registry": "machines models strategies",
    "reports.exports.base": "Exported export_plan",
    "studies.check": "Verdict check_plan",
    "studies.grid": "Comparison Run compare_strategies",
    "studies.explain": "Explanation explain_plan",
    "studies.explore": "Exploration explore_model",
    "studies.profile": "profile_model",
    "studies.step": "score_layers",
    "studies.sweep": "Sweep sweep_model",
    "studies.verify": "Verified verify_plan",
}
"""The public names by the module that has them."""

_HOMES = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = sorted([*_HOMES, "__version__"])  # noqa: PLE0605 (a list)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hypar' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hypar.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return list(__all__)
