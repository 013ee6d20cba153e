import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import hypar
from hypar import load_model, plan_model, read_plan
from hypar.registry import data_names
from hypar.reports.of.plan import plan_document
from hypar.reports.renderers import FORMS, rendered
from tests.kit import output, run
from tests.prose import unbroken


def test_version_and_completion_scripts() -> None:
    assert output("--version") == f"hypar, version {hypar.__version__}\n"
    for shell in ("bash", "zsh", "fish"):
        assert "_HYPAR_COMPLETE" in output("completion", shell)


def test_show_in_every_format(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    plan = plan_model("resnet18", levels=2, strategy="accpar")
    plan.write(file)
    for form in FORMS:
        assert output("show", str(file), "--format", form, "--full") == rendered(
            plan_document(read_plan(file), full=True), form, full=True
        )
    assert output("show", str(file), "--json") == plan.to_json()


def test_compare_says_which_strategy_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypar.solve.solvers.base.STORED_LIMIT", 400)
    text = output("compare", "resnet50", "--levels", "2", "--strategy", "hypar")
    assert "  not planned\n" in text
    assert "hypar solver 'bounded' would hold tables of " in unbroken(text)


def test_a_terminal_without_the_characters_gets_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    command = [sys.executable, "-m", "hypar", "plan", "sfc", "--levels", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "fc1" in done.stdout


def test_a_file_on_stdout_is_utf_8_whatever_the_terminal(tmp_path: Path) -> None:
    plan_model("sfc", hardware="hmc", levels=1).write(tmp_path / "plan.json")
    page = output("report", str(tmp_path / "plan.json"))
    assert not page.isascii()
    command = [sys.executable, "-m", "hypar", "report", str(tmp_path / "plan.json")]
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, env=env, check=True)
    assert done.stdout.decode() == page


def test_names_from_a_file_are_neither_escapes_nor_markup(tmp_path: Path) -> None:
    file = tmp_path / "a\x1b[1m.json"
    text = plan_model("sfc", levels=1).to_json()
    file.write_text(text.replace('"fc1"', '"<b>[x](y)\\u001b[31m"'), encoding="utf-8")
    assert "\n| &lt;b>\\[x](y)?\\[31m | " in output("show", str(file), "--format", "markdown")
    assert "<b>[x](y)?[31m " in output("show", str(file))
    for arguments, said in (
        (["score", str(file), "--hardware", "hmc"], "a?[1m.json: splits: the layers are not those of 'sfc'"),
        (["check", str(file), str(tmp_path / "no\x1bne")], "no?ne: cannot be read"),
        (["check", str(file)], "a?[1m.json"),
        (["show", str(file), "more\x1b"], "Got unexpected extra argument (more?)"),
    ):
        result = run(*arguments)
        assert result.exit_code > 0
        assert said in result.output
        assert "\x1b" not in result.output


def test_models_lists_all_and_shows_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypar.network.graph.load_model", cache(load_model))
    assert {row["model"] for row in json.loads(output("models", "--json"))} == {*data_names("models")}
    layers = json.loads(output("models", "vgg16", "--json"))
    assert layers[1] == {
        "layer": "conv1_1", "op": "conv", "inputs": ["input"],
        "shape": {"channels": 64, "height": 224, "width": 224},
        "parameters": 1792, "macs": 86_704_128, "flop": 64 * 224 * 224 * (2 * 27 - 1),
    }  # fmt: skip


def test_the_module_runs_and_a_closed_pipe_is_no_traceback() -> None:
    command = f"{sys.executable} -m hypar models vgg16 --json | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[\n", "")


# By what a cost counts

ON_HMC = ("--hardware", "hmc")

ROWS = {
    "compare": ("lenet-c", "--levels", "2"),
    "sweep": ("lenet-c", "--levels", "2", *ON_HMC),
    "explore": ("lenet-c", "--levels", "2", "--vary", "fc1", *ON_HMC),
}
"""Commands that print a row for each plan."""


@pytest.mark.parametrize("name", ROWS)
def test_a_table_of_rows_names_a_convention_that_is_not_the_usual(name: str) -> None:
    assert "counted by" not in unbroken(output(name, *ROWS[name]).partition("\n\n")[0])
    assert "counted by fused" in unbroken(output(name, *ROWS[name], "--convention", "fused"))
    rows = json.loads(output(name, *ROWS[name], "--convention", "paper", "--json"))
    assert {row.get("convention") or row["counted"]["convention"] for row in rows} == {"paper"}
