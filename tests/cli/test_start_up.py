"""What starting the program imports."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from click.testing import CliRunner

from hypar.cli.main import main


@cache
def imported(*arguments: str) -> set[str]:
    """The modules that a command imports."""
    code = "import sys, hypar.cli.main as cli\ntry: cli.main()\nexcept SystemExit: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return {*done.stderr.split()}


def test_a_plan_imports_nothing_of_machines_stages_or_refinement() -> None:
    modules = imported("plan", "lenet-c", "--levels", "2")
    assert "hypar.planning.planner" in modules
    folders = (
        "hypar.planning.uneven.planner",
        "hypar.planning.uneven.tree",
        "hypar.planning.stages",
        "hypar.planning.climb",
        "hypar.machine.collectives",
        "hypar.solve.counts",
    )
    loaded = {
        "hypar.machine.load",
        "hypar.machine.schema",
        "hypar.machine.machine",
        "hypar.planning.flat",
        "hypar.schedule.timeline",
        "networkx",
    }
    assert not modules & loaded
    assert not [name for name in modules if name.startswith(folders)]
    assert "hypar.machine.schema" in imported("plan", "lenet-c", "--levels", "2", "--hardware", "hmc")


def test_help_imports_no_command() -> None:
    modules = imported("--help") - {"hypar.plan", "hypar.plan.parameter"}
    assert "hypar.cli.main" in modules
    assert not [
        name for name in modules if name.startswith(("hypar.plan", "hypar.reports", "hypar.machine", "numpy"))
    ]


def test_help_says_of_each_command_what_the_command_says() -> None:
    context = main.make_context("hypar", ["plan"])
    text = " ".join(CliRunner().invoke(main, ["--help"], terminal_width=200).output.split())
    names = main.list_commands(context)
    assert len(names) > 10
    for name in names:
        command = main.get_command(context, name)
        assert command is not None
        first = (command.help or "").split("\n\n")[0].split(". ")[0].rstrip(".")
        assert f"{name} {' '.join(first.split())[:60]}" in text
