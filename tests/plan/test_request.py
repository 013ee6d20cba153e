"""Every option of a plan, once: what it may be, and how a command line gives it."""

from __future__ import annotations

from typing import Any

import pytest

from hypar import load_machine, plan_model
from hypar.cli.rows import COMMANDS
from hypar.errors import HyparError
from hypar.plan.request import PARAMETERS, Request
from tests.kit import run

ASKED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a search": {"levels": 2, "strategy": "optimal", "space": "all", "solver": "elimination", "pins": ("fc1=dp", "fc2@H1=mp")},
    "stages": {"array": (2, "s2", 2), "hardware": load_machine("hmc", {"duplex": "half"}), "optimizer": "adam", "schedule": "gpipe"},
    "chunks": {"batch": 32, "hardware": load_machine("hmc"), "strategy": "dp", "chunks": 2, "refine": False},
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_a_request_is_written_as_a_command_line_that_asks_for_the_same(name: str) -> None:
    asked = ASKED[name]
    command = Request(**asked).command()
    given = {word for word in command if word.startswith("--")}
    assert given - {"--set"} == {
        PARAMETERS[key].flags.split()[0] for key, value in asked.items() if value is not False
    }
    plan = run("plan", "lenet-c", *command, "--json").stdout
    assert plan == plan_model("lenet-c", **asked).to_json()


@pytest.mark.parametrize(
    "given", [{"strategy": 3}, {"space": ["batch"]}, {"pins": 3}, {"array": 4}, {"graph": []}, {"shares": True}, {"hardware": 3}, {"profile": 3}]
)  # fmt: skip
def test_a_value_of_another_kind_is_one_line(given: dict[str, Any]) -> None:
    with pytest.raises(HyparError) as error:
        plan_model("lenet-c", **given)
    assert "\n" not in str(error.value)
    assert "allowed" in str(error.value)


def test_every_option_of_a_request_is_one_of_hypar_plan() -> None:
    command = COMMANDS["plan"].command("plan")
    flags = {flag for param in command.params for flag in param.opts}
    assert {parameter.flags.split()[0] for parameter in PARAMETERS.values()} <= flags
