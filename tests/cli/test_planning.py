"""The options of a request are declared once: every command that plans takes one for each argument of ``plan_model``."""

from __future__ import annotations

import inspect

import pytest

from hypar import plan_model
from hypar.cli.rows import COMMANDS
from hypar.plan.request import PARAMETERS

ARGUMENTS = {*inspect.signature(plan_model).parameters} - {"model"}
OWN = {
    "compare": {"strategies": "strategy"},
    "explore": {},
    "plan": {},
    "sweep": {},
}
"""The names of arguments that a command takes in another form."""


def test_every_argument_of_a_plan_has_an_option() -> None:
    assert {*PARAMETERS} == ARGUMENTS


@pytest.mark.parametrize("name", OWN)
def test_every_command_that_plans_takes_every_option(name: str) -> None:
    command = COMMANDS[name].command(name)
    taken = {str(OWN[name].get(str(param.name), param.name)) for param in command.params}
    assert {*PARAMETERS} <= taken
