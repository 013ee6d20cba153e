from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest
from pydantic import BaseModel

import hypar


def test_public_names_are_pinned() -> None:
    assert hypar.__all__ == [
        "Change",
        "Comparison",
        "Explanation",
        "Exploration",
        "Exported",
        "HyparError",
        "LayerGraph",
        "Machine",
        "Plan",
        "Profile",
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
    assert dir(hypar) == sorted(hypar.__all__)
    assert all(getattr(hypar, name) is not None for name in hypar.__all__)


def test_no_module_takes_the_place_of_a_name_that_is_imported_when_used() -> None:
    """A module that is imported becomes an attribute of its package, and would hide the name."""
    hypar.plan_model("lenet-c", levels=2, hardware="tpu-v2-v3")
    assert hypar.load_machine("tpu-v2-v3").num_devices == 256
    assert not {module.name for module in pkgutil.iter_modules(hypar.__path__)} & {*hypar.__all__}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        hypar.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_importing_hypar_loads_nothing_heavy() -> None:
    heavy = ("torch", "onnx", "jax", "matplotlib", "networkx", "numpy", "pydantic", "rich")
    code = f"import sys, hypar; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_lists_of_what_comes_with_hypar() -> None:
    assert hypar.models() == tuple(sorted(hypar.models()))
    assert hypar.load_model(hypar.models()[0]).name == hypar.models()[0]
    assert {"hmc", "tpu-v2-v3"} < {*hypar.machines()}
    assert {"dp", "hypar"} < {*hypar.strategies()}


def test_what_users_hold_shows_nothing_of_pydantic() -> None:
    machine = hypar.load_machine("hmc")
    plan = hypar.plan_model("lenet-c", levels=2, hardware=machine)
    network = hypar.load_model("lenet-c")
    held = [plan, plan.model, plan.cost, plan.splits[0], plan.score, machine, machine.content, network]
    clutter = {*dir(BaseModel)} | {"schema_"}
    for thing in [*held, network.layers[0].op]:
        shown = {name for name in dir(thing) if not name.startswith("_")}
        assert not shown & clutter, type(thing)
        assert all(hasattr(thing, name) for name in shown)
    assert {"splits", "layers", "dims", "write", "num_devices"} < {*dir(plan)}
