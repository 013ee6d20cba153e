from __future__ import annotations

import subprocess
import sys

import pytest

import hypar


def test_public_names_are_pinned() -> None:
    assert hypar.__all__ == [
        "Change",
        "Explanation",
        "Exploration",
        "HyparError",
        "LayerGraph",
        "Machine",
        "MixedMachine",
        "Plan",
        "Profile",
        "Row",
        "Run",
        "Score",
        "Verdict",
        "__version__",
        "check_plan",
        "compare_strategies",
        "diff_plans",
        "explain_plan",
        "explore_model",
        "load_machine",
        "load_mixed",
        "load_model",
        "plan_model",
        "profile_model",
        "read_plan",
        "read_profile",
        "score_plan",
        "sweep_model",
    ]
    assert dir(hypar) == sorted(hypar.__all__)
    assert all(getattr(hypar, name) is not None for name in hypar.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        hypar.nonsense  # noqa: B018


def test_importing_hypar_loads_nothing_heavy() -> None:
    heavy = ("torch", "jax", "matplotlib", "networkx", "numpy", "pydantic", "rich")
    code = f"import sys, hypar; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
