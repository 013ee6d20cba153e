import pkgutil
import subprocess
import sys

import pytest
from pydantic import BaseModel

import hypar


def test_public_names_are_those_of_the_page_of_python() -> None:
    """tests/test_docs.py compares the page."""
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


def a_command(*words: str) -> str:
    return f"import hypar.cli.main as cli; sys.argv[1:] = {words}\ntry: cli.main()\nexcept SystemExit: pass"


UNUSED = " ".join(
    [f"hypar.planning.{name}" for name in ("stages", "engine")]
    + [f"hypar.machine.{name}" for name in ("load", "schema", "machine", "collectives")]
)


@pytest.mark.parametrize(("code", "loaded", "others"), [
    ("import hypar", "hypar", "torch onnx jax matplotlib networkx numpy pydantic rich"),
    ("import hypar.planning.planner, hypar.cli.main", "hypar.planning.planner", "hypar.execution"),
    ("import hypar.studies.profile, hypar.cli.commands", "hypar.studies.profile", "torch"),
    (a_command("--help"), "hypar.cli.main hypar.plan hypar.plan.parameter",
        "numpy hypar.planning hypar.plan hypar.reports hypar.machine"),
    (a_command("plan", "lenet-c", "--levels", "2"), "hypar.planning.planner",
        f"networkx hypar.schedule.timeline hypar.solve.counts {UNUSED}"),
    (a_command("plan", "lenet-c", "--levels", "2", "--hardware", "hmc"), "hypar.machine.schema", ""),
])  # fmt: skip
def test_nothing_is_imported_that_is_not_used(code: str, loaded: str, others: str) -> None:
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"]
    modules = {*subprocess.run(command, capture_output=True, text=True, check=True).stderr.split()}
    assert {*loaded.split()} <= modules
    prefixes = tuple(f"{other}." for other in others.split())
    assert not [name for name in modules - {*loaded.split()} if f"{name}.".startswith(prefixes)]


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
