"""``hypar plan --certificate`` and ``hypar check`` of plans with certificates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hypar.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("folder")


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, words)
    return result.exit_code, result.stdout, result.stderr


def test_a_certificate_is_written_and_checked(tmp_path: Path) -> None:
    asked = ("plan", "alexnet", "--levels", "3", "--strategy", "optimal", "-o", "p.json")
    assert run(*asked, "--certificate", "p.certificate.json")[0] == 0
    assert run("check", "p.json")[:2] == (0, "ok       p.json, by its certificate\n")
    assert json.loads(run("check", "p.json", "--json")[1])[0]["certified"] is True
    (tmp_path / "p.certificate.json").rename(tmp_path / "other.json")
    assert run("check", "p.json")[:2] == (0, "ok       p.json\n")
    assert run("check", "p.json", "--certificate", "other.json")[1].endswith("by its certificate\n")
    text = (tmp_path / "other.json").read_text().replace('"batch": 256', '"batch": 255')
    (tmp_path / "other.json").write_text(text)
    status, _, error = run("check", "p.json", "--certificate", "other.json")
    assert (status, error) == (
        3,
        "error: p.json: other.json: batch: found 255; allowed: 256, as the plan and its network\n",
    )
