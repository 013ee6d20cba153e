"""Stored plans: what is planned today is what was planned then. ``--update-golden`` rewrites them."""

import json
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hypar.registry import data_file
from tests.effort import late
from tests.goldens import FOLDER, NAMES, command, golden
from tests.kit import run

STORED = sorted(FOLDER.glob("*.json"))


check = partial(run, "check")


@pytest.mark.parametrize("name", late(NAMES, "resnet18-deepa-joint", "googlenet-deepa"))
@pytest.mark.usefixtures("folder")
def test_a_golden_plan_is_printed_as_it_was_and_found_again(name: str, update_golden: bool) -> None:
    file, asked = FOLDER / f"{name}.txt", command(name)
    found = f"$ hypar {shlex.join(asked)}\n\n{run(*asked, '-o', 'plan.json').stdout}"
    if update_golden:
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")
    assert check("plan.json").stdout == "ok       plan.json\n"


@pytest.mark.parametrize("file", STORED, ids=lambda file: str(file.stem))
def test_a_stored_plan_is_written_as_it_was(file: Path, update_golden: bool) -> None:
    text = golden(file.stem).to_json()
    if update_golden:
        file.write_text(text, encoding="utf-8")
    # The last digits of seconds may be others on another computer; ``check`` allows for that.
    assert "seconds" in text or text == file.read_text(encoding="utf-8")
    assert check(str(file)).stdout == f"ok       {file}\n"


def edited(tmp_path: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    data = json.loads((FOLDER / "vgg16-hypar.json").read_text())
    edit(data)
    file = tmp_path / "edited.json"
    file.write_text(json.dumps(data))
    return file


def set_choice(data: dict[str, Any]) -> None:
    data["splits"][2]["choices"]["conv4_1"] = {"in_channels": 2}


def test_an_edited_model_is_found_out_by_layer_and_level(tmp_path: Path) -> None:
    """The model beside the plan is the one that counts."""
    file = edited(tmp_path, lambda data: None)
    text = data_file("models", "vgg16").read_text()
    (tmp_path / "vgg16.yaml").write_text(text.replace("name: fc2, op: linear, out_features: 4096",
                                                      "name: fc2, op: linear, out_features: 2048"))  # fmt: skip
    result = check(str(file))
    assert result.exit_code == 1
    assert "model 'vgg16' is not what was planned" in result.stdout
    assert "\nvolume  " in result.stdout


def test_every_plan_is_judged_even_where_one_cannot_be_read(tmp_path: Path) -> None:
    good, bad = FOLDER / "lenet-c-scored.json", tmp_path / "bad.json"
    bad.write_text("{")
    result = check(str(bad), str(good))
    assert (result.exit_code, result.stdout) == (3, f"ok       {good}\n")
    assert result.stderr.startswith(f"error: {bad}:1: not JSON")
    found = json.loads(check(str(bad), str(good), "--json").stdout)
    assert [entry["ok"] for entry in found] == [False, True]
    assert "not JSON" in found[0]["error"]


def test_a_plan_that_cannot_be_read_outweighs_one_that_drifted(tmp_path: Path) -> None:
    drifted, bad = edited(tmp_path, set_choice), tmp_path / "bad.json"
    bad.write_text("{")
    for files in ([drifted, bad], [bad, drifted]):
        assert check(*map(str, files)).exit_code == 3
    assert check(str(drifted)).exit_code == 1
    assert check(str(bad), str(drifted), "--update").exit_code == 3
    assert check(str(drifted)).exit_code == 0
