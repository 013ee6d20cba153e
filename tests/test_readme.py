"""What the README shows is what comes out."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from hypar.cli.main import main
from tests.test_docs import compare

if TYPE_CHECKING:
    import pytest

README = Path(__file__).parents[1] / "README.md"
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
    """Return what a command prints."""
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


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXT):
        assert (README.parent / link).exists(), f"the README links to {link}"


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
