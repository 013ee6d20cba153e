"""``hypar plan --certificate`` and ``hypar check`` of plans with certificates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hypar.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


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


def test_a_plan_without_a_certificate_is_refused_in_one_line() -> None:
    asked = ("plan", "unet", "--levels", "10", "--strategy", "optimal")
    status, _, error = run(*asked, "--certificate", "c.json")
    assert status == 3
    assert error.startswith("error: certificate: the bound is 0.82% below the cost of 'unet'")
    assert error.count("\n") == 1


def test_tensors_of_named_dims_have_no_certificate() -> None:
    asked = ["plan", "llama3-8b", "--batch", "8", "--levels", "1", "--strategy", "optimal"]
    status, _, error = run(*asked, "--certificate", "c.json")
    assert status == 3
    assert error == (
        "error: certificate: found out_hidden of a tensor between two layers; "
        "allowed: batch, channels, height, width, where both layers divide them\n"
    )


@pytest.mark.parametrize("strategy", ["dp", "optimal"])
def test_a_weight_of_several_layers_has_no_certificate(strategy: str, tmp_path: Path) -> None:
    """Its gradient is sent once, which the formulas of a certificate do not know."""
    status, _, error = run("plan", "gpt2", "--levels", "2", "--strategy", strategy, "--certificate", "c.json")
    allowed = "allowed: layers with weights of their own"
    assert (status, error) == (3, f"error: certificate: found a weight that several layers use; {allowed}\n")
    assert not (tmp_path / "c.json").exists()


def test_a_missing_certificate_is_one_line() -> None:
    run("plan", "sfc", "--levels", "2", "-o", "p.json")
    status, _, error = run("check", "p.json", "--certificate", "none.json")
    assert (status, error.count("\n")) == (3, 1)
