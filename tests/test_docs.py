"""The docs cannot lie: whatever has a name has its words, and every example is a real output."""

import doctest
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click
import kit
import pytest
import yaml
from click.testing import CliRunner
from pydantic import BaseModel

import hypar
from hypar import registry
from hypar.cli.main import main
from hypar.cli.rows import COMMANDS
from hypar.files.validation import Sourced
from hypar.files.yaml_file import MOST_NODES
from hypar.machine import profiles
from hypar.machine.schema import (
    MOST_HELD,
    Assumptions,
    Device,
    Energy,
    GroupEntry,
    HardwareFile,
    HeterogeneousFile,
    Memory,
    Network,
    Outward,
)
from hypar.network import modelfile
from hypar.network.modelfile import MOST_LAYERS
from hypar.ops.base import LARGEST_SIZE
from hypar.plan import plan, records
from hypar.planning.refusals import REFUSALS
from hypar.registry import data_names, load_plugin, plugin_names
from hypar.sharding import tree
from tests.kit import FREE

SOURCE = Path(hypar.__file__).parent
README = Path(__file__).parents[1] / "README.md"
DOCS = README.parent / "docs"
PAGES = {str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md"))}
PLUGIN_PAGES = ("compute_models", "costs", "searches", "solvers", "strategies", "topologies")
MACHINE_PLUGINS = ("topologies", "compute_models")
SECTIONS = ["Idea", "Guarantee", "Complexity", "Reference", "Knobs"]

FENCE = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<name>\S+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)
"""A block of a page: a ``console`` is run; any block that has a file's name as its title is written to that file."""


def own_plugins(group: str) -> set[str]:
    return {*registry.own_plugins(group)}


def compare(page: Path, fresh: str, *, update: bool) -> None:
    """Compare a page with what it should be, or rewrite it."""
    if update:
        page.write_text(fresh, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == fresh, "outdated: pytest --update-golden rewrites it"


# Plug-ins


@pytest.mark.parametrize("group", PLUGIN_PAGES)
def test_every_plugin_has_a_page_and_every_page_a_plugin(group: str) -> None:
    assert {page.stem for page in (DOCS / group).glob("*.md")} == own_plugins(group)


def test_every_reproduction_has_a_page() -> None:
    assert {page.stem for page in (DOCS / "reproductions").glob("*.md")} == {*kit.papers()}


@pytest.mark.parametrize("page", [name for name in PAGES if name.startswith(PLUGIN_PAGES)])
def test_plugin_pages_have_one_shape(page: str) -> None:
    text = PAGES[page].read_text(encoding="utf-8")
    assert text.startswith(f"# {PAGES[page].stem}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert len(text.splitlines()) <= 40


@pytest.mark.parametrize("op", plugin_names("ops"))
def test_every_op_and_its_fields_are_documented(op: str) -> None:
    row = re.search(rf"^\| `{op}` \|.*$", PAGES["models.md"].read_text(encoding="utf-8"), re.MULTILINE)
    assert row, f"models.md has no row for op {op!r}"
    for field in [info.alias or name for name, info in load_plugin("ops", op).model_fields.items()]:
        assert f"`{field}" in row[0], f"models.md does not say what {field!r} of {op!r} is"


# Files


@pytest.mark.parametrize(
    ("page", "model"),
    [
        *(("models.md", part) for part in (modelfile.ModelFile, modelfile.Block)),
        *(("models.md", part) for part in (modelfile.BlockUse, modelfile.LayerHead)),
        *(
            ("plans.md", part)
            for part in (
                plan.Plan,
                records.ModelRecord,
                records.FilesRecord,
                records.TrainingRecord,
                records.CostRecord,
            )
        ),
        *(("plans.md", part) for part in (tree.Split, tree.GroupRecord, records.GroupScore)),
        *(("plans.md", part) for part in (records.RefinementRecord, records.ChunksRecord, records.Score)),
        *(("plans.md", part) for part in (records.StagesRecord, records.StageRecord)),
        *(("profiles.md", part) for part in (profiles.Profile, profiles.ProfiledModel)),
        *(("overlap.md", part) for part in (profiles.OverlapTable, profiles.MeasuredLayer)),
        *(
            ("hardware.md", part)
            for part in (
                *(HardwareFile, Device, Memory, Energy, Network, Assumptions, Sourced),
                *(HeterogeneousFile, GroupEntry, Outward),
            )
        ),
    ],
)
def test_every_key_of_a_file_is_documented(page: str, model: type[BaseModel]) -> None:
    text = PAGES[page].read_text(encoding="utf-8")
    for name, field in model.model_fields.items():
        assert f"| `{field.alias or name}` |" in text, f"{page} has no row for {field.alias or name!r}"


STATED = [
    *(("models.md", f"{limit:,}") for limit in (LARGEST_SIZE, MOST_LAYERS, MOST_NODES)),
    ("overlap.md", f"{profiles.MOST_SECONDS:,} s"),
    ("hardware.md", f"up to {MOST_HELD} "),
    ("plans.md", f'"{plan.SCHEMA}"'),
    *(
        ("hardware.md", f"({group}/{name}.md)")
        for group in MACHINE_PLUGINS
        for name in sorted(own_plugins(group))
    ),
    *(
        (f"{group}/{name}.md", f"`{field}`")
        for group in MACHINE_PLUGINS
        for name in sorted(own_plugins(group))
        for field in load_plugin(group, name).model_fields
    ),
]
"""Limits, schemas, plug-ins of machines and their fields, each with the page that has it."""


@pytest.mark.parametrize(("page", "words"), [*dict.fromkeys(STATED)])
def test_what_files_may_say_is_on_its_page(page: str, words: str) -> None:
    assert words in PAGES[page].read_text(encoding="utf-8")


def test_machines_are_documented() -> None:
    text = PAGES["hardware.md"].read_text(encoding="utf-8")
    machines = re.findall(r"^\| `([\w-]+)` \|", text.partition("## Machines")[2], re.MULTILINE)
    assert sorted(machines) == list(data_names("hardware"))


def test_what_check_leaves_free_is_documented() -> None:
    section = PAGES["plans.md"].read_text(encoding="utf-8").partition("\n## Check\n")[2]
    table = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(re.findall("`([^`]+)`", " ".join(table))) == sorted(FREE)


# Words


def test_glossary_entries_are_sorted_and_used() -> None:
    entries = re.findall(r"^- \*\*(.+?)\*\*", PAGES["glossary.md"].read_text(encoding="utf-8"), re.MULTILINE)
    assert len(entries) > 30
    assert entries == sorted(set(entries), key=str.lower)
    files = [*SOURCE.rglob("*.py"), *(page for name, page in PAGES.items() if name != "glossary.md")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files).replace("-", " ").lower()
    words = [word for entry in entries for word in entry.lower().replace("-", " ").split(", ")]
    single = {*re.findall(r"\w+", text)}
    rest = [word for word in words if not {word, f"{word}s"} & single]
    assert not [word for word in rest if not re.search(rf"\b{re.escape(word)}s?\b", text)]


def test_the_changelog_names_the_version_below_what_is_unreleased() -> None:
    headings = re.findall(r"^## (.+)$", PAGES["changelog.md"].read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(hypar.__version__)} \(\d{{4}}-\d\d-\d\d\)", headings[1])


def test_index_lists_every_page() -> None:
    linked = re.findall(r"\]\(([\w/-]+\.md)\)", PAGES["index.md"].read_text(encoding="utf-8"))
    assert sorted(linked) == sorted(set(PAGES) - {"index.md"})


def test_the_site_navigates_as_the_index_lists() -> None:
    sections = re.split(r"^## ", PAGES["index.md"].read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    listed = {text.partition("\n")[0]: re.findall(r"\]\(([\w/-]+\.md)\)", text) for text in sections}
    nav = yaml.safe_load((DOCS.parent / ".mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert {name: list(pages(part)) for item in nav for name, part in item.items()} == {
        **listed,
        "Start": ["index.md", *listed["Start"]],
    }


def pages(part: Any) -> Iterator[str]:
    """Yield the pages of a part of the navigation, those of its own parts included."""
    if isinstance(part, str):
        yield part
    else:
        for one in part.values() if isinstance(part, dict) else part:
            yield from pages(one)


def test_the_python_page_has_every_public_name() -> None:
    named = re.findall(r"^::: hypar\.(\w+)$", PAGES["api.md"].read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(hypar.__all__)


def test_examples_of_docstrings_are_headed_as_the_site_reads_them() -> None:
    files = {file: file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}
    wrong = [file.name for file, text in files.items() if re.search(r"^ *Example:$", text, re.MULTILINE)]
    assert not wrong, "an example's section is headed Examples:"


@pytest.mark.parametrize("page", [*PAGES.values(), README], ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), f"{page} links to {link}"


# Command line


def cli_reference() -> str:
    lines = [
        "# Command line",
        "",
        "Generated from the commands; `pytest --update-golden` rewrites it.",
        "",
        folded(main.help),
        "",
        "`MODEL` is the path of a [model file](models.md) or the bare name of a model that comes with hypar.",
        "Every command takes `-h`, `--help`.",
    ]
    options = {name: [*map(option_line, options_of(own))] for name, own in commands().items()}
    often = Counter(chain(*options.values()))
    for name, command in commands().items():
        required = [usage(param) for param in command.params if isinstance(param, click.Argument)]
        lines += ["", f"## hypar {name}", "", f"    {' '.join(['hypar', name, '[OPTIONS]', *required])}", ""]
        lines += [folded(command.help)]
        own, shared = (
            [line for line in options[name] if (often[line] > 1) is more] for more in (False, True)
        )
        lines += [""] * bool(own) + own
        named = ", ".join(re.sub(r"- (`[^`, ]+).*", r"\1`", line) for line in shared)
        lines += ["", f"Also, as [below](#options-of-several-commands): {named}."] if shared else []
    lines += ["", "## Options of several commands", "", *(line for line in often if often[line] > 1)]
    return "\n".join(lines) + "\n"


def options_of(command: click.Command) -> list[click.Option]:
    return [param for param in command.params if isinstance(param, click.Option)]


def commands() -> dict[str, click.Command]:
    for command in COMMANDS.values():
        command.get_params(click.Context(command))  # makes its options
    return dict(sorted(COMMANDS.items()))


def squeezed(text: str | None) -> str:
    return " ".join((text or "").split())


def folded(text: str | None) -> str:
    return textwrap.fill(squeezed(text), 110, break_long_words=False, break_on_hyphens=False)


def usage(argument: click.Argument) -> str:
    """An argument as a usage line shows it."""
    choices = argument.type.choices if isinstance(argument.type, click.Choice) else ()
    name = "|".join(choices) or argument.human_readable_name.upper()
    name += "..." if argument.nargs < 0 else ""
    return name if argument.required else f"[{name}]"


def option_line(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.metavar or option.type.name.upper()}"
    default = f" [default: {option.default}]" if option.show_default else ""
    return f"- `{', '.join(option.opts)}{value}`: {squeezed(option.help)}{default}"


def test_cli_reference_is_current(update_golden: bool) -> None:
    compare(DOCS / "cli.md", cli_reference(), update=update_golden)


def refusals() -> str:
    rows = []
    for row in REFUSALS:
        line = "; allowed: ".join(filter(None, (f"{row.where}: {row.found}".removeprefix(": "), row.allowed)))
        message = re.sub(r"\{(\w+)\}", lambda word: word[1].upper(), line)
        rows.append(f"| {row.first} | {row.second} | `{message}` | {row.reason} |\n")
    return "".join(rows)


def test_the_refusals_are_listed(update_golden: bool) -> None:
    page = PAGES["refusals.md"]
    text = page.read_text(encoding="utf-8")
    head, mark, _ = text.partition("|---|---|---|---|\n")
    assert mark
    compare(page, head + mark + refusals(), update=update_golden)


@pytest.mark.parametrize("name", commands())
def test_every_command_and_option_has_help(name: str) -> None:
    command = commands()[name]
    assert command.help
    assert all(param.help for param in command.params if isinstance(param, click.Option))
    assert f"\n## hypar {name}\n" in PAGES["cli.md"].read_text(encoding="utf-8")


# Examples


@pytest.mark.parametrize("page", [name for name in PAGES if "```console" in PAGES[name].read_text("utf-8")])
def test_shell_examples_are_real(
    page: str, update_golden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    fresh = FENCE.sub(replayed, PAGES[page].read_text(encoding="utf-8"))
    compare(PAGES[page], fresh, update=update_golden)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_begin_as_the_site_reads_them(page: str) -> None:
    lines = PAGES[page].read_text(encoding="utf-8").splitlines()
    opened = [line for line in lines if line.startswith("```")][::2]
    assert not [line for line in opened if not re.fullmatch(r'```\w+( title="\S+")?', line)]


def replayed(fence: re.Match[str]) -> str:
    """A block with the output that its commands have now; ``...`` stands for anything."""
    if fence["name"]:
        Path(fence["name"]).write_text(fence["text"], encoding="utf-8")
    if fence["kind"] != "console":
        return fence[0]
    found, status = "", 0
    for command, shown in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", fence["text"], re.MULTILINE):
        output = shown
        if command == "echo $?":
            output = f"{status}\n"
        elif command.startswith("hypar "):
            result = CliRunner().invoke(main, shlex.split(command)[1:], prog_name="hypar")
            output, status = result.output, result.exit_code
        same = doctest.OutputChecker().check_output(shown, output, doctest.ELLIPSIS)
        found += f"$ {command}\n{shown if same else output}"
    return f"```console\n{found}```"


# The README


TEXT = README.read_text(encoding="utf-8")
BLOCKS = [match.group(1) for match in re.finditer(r"```text\n(.*?)\n```", TEXT, re.DOTALL)]


def test_commands_print_what_is_shown(update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(README.parent)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    (first,) = re.findall(r"bin/hypar (.*)", TEXT)
    fresh = TEXT.replace(BLOCKS[0], printed(first))
    for block in BLOCKS[1:]:
        command = block.partition("\n")[0]
        fresh = fresh.replace(block, f"{command}\n{printed(command.removeprefix('$ hypar '))}")
    compare(README, fresh, update=update_golden)


def printed(arguments: str) -> str:
    return CliRunner().invoke(main, shlex.split(arguments)).stdout.rstrip()


def test_the_picture_is_drawn_by_the_commands_below_it(
    update_golden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (block,) = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    for command in re.findall(r"^\$ hypar (.+)$", block, re.MULTILINE):
        assert CliRunner().invoke(main, shlex.split(command)).exit_code == 0
    (shown,) = re.findall(r"!\[[^\]]+\]\((.+?)\)", TEXT)
    compare(README.parent / shown, (tmp_path / shown).read_text(encoding="utf-8"), update=update_golden)


def test_papers_have_their_numbers() -> None:
    rows = [line for line in TEXT.partition("## Papers")[2].splitlines() if re.match(r"\| \w+ et al", line)]
    assert len(rows) == 5
    pages = [page for row in rows for page in re.findall(r"docs/reproductions/\w+\.md", row)]
    assert len({*pages}) == 5
    for arxiv in re.findall(r"\[arXiv:([\d.]+)\]\((.+?)\)", TEXT):
        assert arxiv[1] == f"https://arxiv.org/abs/{arxiv[0]}"
    for doi in re.findall(r"\[(10\.\S+)\]\((.+?)\)", TEXT):
        assert doi[1] == f"https://doi.org/{doi[0]}"


def test_the_reproduced_mean_is_the_page_s() -> None:
    ours, published = re.findall(r"speed-up over dp as (\S+) \(published: ([\d.]+)\)", TEXT)[0]
    page = (README.parent / "docs" / "reproductions" / "hypar.md").read_text(encoding="utf-8")
    assert f"| performance, mean of ten | {published} | {ours} |" in page


def test_the_python_lines_run() -> None:
    assert doctest.testfile(str(README), module_relative=False).failed == 0
