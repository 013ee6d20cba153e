"""Help pages in groups, and options whose values have names: they are in the help and complete."""

import inspect
import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from hypar import plan_model
from hypar.cli.main import main
from hypar.cli.rows import COMMANDS, Command, Option
from hypar.costs.named import MODES
from hypar.network.training import OPTIMIZERS
from hypar.plan.parameter import HEADINGS, OTHER
from hypar.plan.records import FLUSHES
from hypar.plan.request import PARAMETERS
from hypar.registry import data_names, plugin_names
from hypar.reports.renderers import FORMS
from tests.kit import known

CONTEXT = click.Context(main)
OPTIONS = {
    f"{name} {param.opts[-1]}": param
    for name, command in COMMANDS.items()
    for param in command.get_params(CONTEXT)
    if isinstance(param, click.Option)
}
NAMED = {
    place: param for place, param in OPTIONS.items() if isinstance(param, Option) and [*param.row.names()]
}


def page(name: str, width: int = 80) -> str:
    result = CliRunner().invoke(main, [name, "--help"], terminal_width=width)
    assert result.exit_code == 0
    return result.stdout


def completed(option: click.Option, typed: str) -> list[str]:
    found = option.shell_complete(CONTEXT, typed)
    return [item.value for item in found if item.type == "plain"]


def sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """The headings of a help page, each with its options."""
    for part in re.split(r"\n(?=\w[\w ]*:\n)", text)[1:]:
        heading, _, rest = part.partition(":\n")
        yield heading, re.findall(r"^  (?:-\w, )?(--[\w-]+)", rest, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_under_a_heading_of_its_own_page(name: str) -> None:
    command = COMMANDS[name]
    assert isinstance(command, Command)
    found = dict(sections(page(name)))
    assert [*found] == [heading for heading in HEADINGS if heading in found]
    listed = [option for options in found.values() for option in options]
    assert sorted(listed) == sorted(
        param.opts[-1] for param in command.get_params(CONTEXT) if isinstance(param, click.Option)
    )
    assert found[OTHER] == ["--help"]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_of_help_is_wider_than_the_terminal(name: str, width: int) -> None:
    assert max(map(len, page(name, width).splitlines())) <= width


@pytest.mark.parametrize("place", NAMED)
def test_names_are_in_the_help_and_complete(place: str) -> None:
    option, names = NAMED[place], [*NAMED[place].row.names()]
    text = (option.get_help_record(CONTEXT) or ("", ""))[1]
    forms = [*(option.row.forms or option.row.names)()]
    assert [form for form in forms if not re.search(rf"(?<![\w-]){re.escape(form)}(?![\w-])", text)] == []
    # A form in capitals stands for several names, which only a completion lists.
    patterns = [re.sub("[A-Z]{5,}", r"\\w+", re.escape(form)) for form in forms]
    assert [name for name in names if not any(re.fullmatch(pattern, name) for pattern in patterns)] == []
    assert completed(option, "") == names
    for name in names:
        assert completed(option, name[:3]) == [other for other in names if other.startswith(name[:3])]
    assert completed(option, "nothing like it") == []


def test_options_whose_values_have_names() -> None:
    """An option of a name has names, and each group of names has its options."""
    unnamed = [
        place
        for place, option in OPTIONS.items()
        if str(option.metavar).startswith("NAME") and place not in NAMED
    ]
    assert unnamed == []
    for names, place in (
        (plugin_names("strategies"), "plan --strategy"),
        (plugin_names("costs"), "plan --cost"),
        (plugin_names("searches"), "plan --search"),
        (["bounded", "chain", "counts", "elimination"], "plan --solver"),
        (FORMS, "show --format"),
        (plugin_names("exports"), "export --format"),
        (data_names("hardware"), "sweep --hardware"),
        (MODES, "plan --mode"),
        (FLUSHES, "plan --schedule"),
        (OPTIMIZERS, "score --optimizer"),
    ):
        assert completed(OPTIONS[place], "") == [*names]


def test_a_list_completes_its_last_name_and_a_file_may_follow() -> None:
    assert completed(OPTIONS["sweep --strategy"], "dp,ow") == ["dp,owt"]
    assert completed(OPTIONS["sweep --hardware"], "hmc,tpu-v3") == ["hmc,tpu-v3"]
    assert [item.type for item in OPTIONS["plan --hardware"].shell_complete(CONTEXT, "mine/")] == ["file"]
    assert [item.type for item in OPTIONS["check --profile"].shell_complete(CONTEXT, "mi")] == ["file"]


# One option for each argument of ``plan_model``

ARGUMENTS = {*inspect.signature(plan_model).parameters} - {"model"}
OWN = {"compare": {"strategies": "strategy"}, "explore": {}, "plan": {}, "sweep": {}}
"""The names of arguments that a command takes in another form."""


def test_every_argument_of_a_plan_has_an_option() -> None:
    assert {*PARAMETERS} == ARGUMENTS


@pytest.mark.parametrize("name", OWN)
def test_every_command_that_plans_takes_every_option(name: str) -> None:
    command = COMMANDS[name]
    taken = {str(OWN[name].get(str(param.name), param.name)) for param in command.params}
    assert {*PARAMETERS} <= taken


# What starting the program imports


def test_help_says_of_each_command_what_the_command_says() -> None:
    context = main.make_context("hypar", ["plan"])
    text = " ".join(CliRunner().invoke(main, ["--help"], terminal_width=200).output.split())
    names = main.list_commands(context)
    assert len(names) > 10
    for name in names:
        command = main.get_command(context, name)
        first = (known(command).help or "").split("\n\n")[0].split(". ")[0].rstrip(".")
        assert f"{name} {' '.join(first.split())[:60]}" in text
