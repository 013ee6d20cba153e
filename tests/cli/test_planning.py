"""The options of a request are declared once: every command that plans takes one for each argument of ``plan_model``."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import click
import pytest

from hypar import compare_strategies, explore_model, plan_model, sweep_model
from hypar.cli.main import main
from hypar.plan.request import PARAMETERS
from hypar.planning.arguments import HeldArguments, PlanArguments

if TYPE_CHECKING:
    from collections.abc import Callable

ARGUMENTS = {*inspect.signature(plan_model).parameters} - {"model", "progress"}
OWN = {
    "compare": {"strategies": "strategy"},
    "explore": {},
    "plan": {},
    "sweep": {},
}
"""The names of arguments that a command takes in another form."""
STUDIES: dict[str, Callable[..., object]] = {
    "compare": compare_strategies,
    "explore": explore_model,
    "sweep": sweep_model,
}


def test_every_argument_of_a_plan_has_an_option() -> None:
    assert {*PARAMETERS} == ARGUMENTS


def test_studies_pass_on_every_argument_of_a_plan() -> None:
    assert {*PlanArguments.__annotations__} == ARGUMENTS - {"hardware", "strategy", "convention"}
    assert {*PlanArguments.__annotations__} - {*HeldArguments.__annotations__} == {"levels", "array", "batch"}


@pytest.mark.parametrize("name", OWN)
def test_every_command_that_plans_takes_every_option(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    taken = {str(OWN[name].get(str(param.name), param.name)) for param in command.params}
    assert {*PARAMETERS} <= taken


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_takes_every_argument_once(name: str) -> None:
    own = {OWN[name].get(one, one) for one in inspect.signature(STUDIES[name]).parameters}
    passed = HeldArguments if name == "sweep" else PlanArguments
    assert not own & {*passed.__annotations__}
    assert own | {*passed.__annotations__} >= ARGUMENTS
