"""Stored plans: what is planned today is what was planned then. ``--update-golden`` rewrites them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from hypar import plan_model, read_plan
from hypar.cli.main import main
from hypar.registry import data_file
from tests.effort import late

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parent / "golden"
ASKED: dict[str, dict[str, Any]] = {
    "lenet-c-hypar": {"model": "lenet-c", "levels": 4, "inter_weight": 0.5},
    "sfc-hypar": {"model": "sfc", "levels": 4},
    "vgg16-hypar": {"model": "vgg16", "levels": 4},
    "vgg16-accpar-joint": {"model": "vgg16", "levels": 3, "strategy": "accpar", "search": "joint"},
    "alexnet-optimal": {"model": "alexnet", "levels": 3, "strategy": "optimal"},
    "alexnet-optimal-paper": {"model": "alexnet", "levels": 3, "strategy": "optimal", "convention": "paper"},
    "alexnet-fused": {"model": "alexnet", "levels": 3, "strategy": "accpar", "convention": "fused", "hardware": "hmc"},
    "lenet-c-scored": {"model": "lenet-c", "levels": 3, "hardware": "hmc"},
    "resnet18-accpar-pinned": {
        "model": "resnet18", "levels": 3, "strategy": "accpar", "pins": ["fc@H1=mp", "layer1*=dp"],
    },
    "inception-v3-hypar": {"model": "inception-v3", "levels": 4},
    "googlenet-4x8": {"model": "googlenet", "array": [4, 8], "strategy": "accpar"},
    "alexnet-deepa": {"model": "alexnet", "array": [16], "strategy": "deepa", "hardware": "p100-4x4"},
    "googlenet-deepa": {"model": "googlenet", "array": [16], "strategy": "deepa", "hardware": "p100-4x4"},
    "resnet18-deepa-joint": {
        "model": "resnet18", "array": [4, 4], "strategy": "deepa", "hardware": "p100-4x4", "search": "joint",
        "pins": ["fc=c1", "layer4.1.conv2@H2=n2 h2"],
    },
    "resnet18-stages": {
        "model": "resnet18", "stages": 4, "levels": 2, "strategy": "accpar", "cost": "time", "hardware": "hmc", "pins": "fc=mp",
    },
    "lenet-c-best-stages": {
        "model": "lenet-c", "stages": "best", "levels": 4, "strategy": "hypar", "cost": "time", "hardware": "hmc",
    },
    "resnet18-stages-paper": {
        "model": "resnet18", "stages": 4, "levels": 2, "strategy": "accpar", "cost": "time", "hardware": "hmc", "pins": "fc=mp", "convention": "paper",
    },
    "lenet-c-best-stages-paper": {
        "model": "lenet-c", "stages": "best", "levels": 4, "strategy": "hypar", "cost": "time", "hardware": "hmc", "convention": "paper",
    },
    "lenet-c-stages-on-groups": {
        "model": "lenet-c", "stages": 4, "levels": 2, "strategy": "accpar", "hardware": "tpu-v2-v3", "optimizer": "adam",
    },
    "alexnet-grids": {"model": "alexnet", "array": [4, 16], "space": "all"},
}  # fmt: skip


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


@pytest.mark.parametrize("name", late(ASKED, "resnet18-deepa-joint", "googlenet-deepa"))
def test_stored_plans_hold(name: str, update_golden: bool) -> None:
    file = GOLDEN / f"{name}.json"
    if update_golden:
        plan_model(**ASKED[name]).write(file)
    plan, stored = plan_model(**ASKED[name]), read_plan(file)
    assert [split.choices for split in plan.splits] == [split.choices for split in stored.splits]
    # The last digits of seconds may be others on another computer; ``check`` allows for that.
    assert plan.cost.unit == "seconds" or plan.to_json() == file.read_text()
    result = check(str(file))
    assert (result.exit_code, result.stdout) == (0, f"ok       {file}\n")


def edited(tmp_path: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """A stored plan of VGG-16, changed by hand."""
    data = json.loads((GOLDEN / "vgg16-hypar.json").read_text())
    edit(data)
    file = tmp_path / "edited.json"
    file.write_text(json.dumps(data))
    return file


def set_choice(data: dict[str, Any]) -> None:
    data["splits"][2]["choices"]["conv4_1"] = {"in_channels": 2}


def set_layer_cost(data: dict[str, Any]) -> None:
    data["splits"][1]["costs"]["fc2"] += 8


def set_level_cost(data: dict[str, Any]) -> None:
    data["splits"][3]["cost"] += 1


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (set_choice, "  conv4_1  H3  in_channels -> batch\n"),
        (set_layer_cost, "  fc2 H2  "),
        (set_level_cost, "  volume of H4  "),
    ],
)
def test_a_plan_edited_by_hand_is_found_out(
    tmp_path: Path, edit: Callable[[dict[str, Any]], None], named: str
) -> None:
    file = edited(tmp_path, edit)
    result = check(str(file))
    assert result.exit_code == 1
    assert named in result.stdout
    as_json = json.loads(check(str(file), "--json").stdout)
    assert (as_json[0]["ok"], as_json[0]["model_changed"]) == (False, False)
    updated = check(str(file), "--update")
    assert (updated.exit_code, updated.stderr) == (0, f"rewrote {file}\n")
    assert check(str(file)).exit_code == 0
    assert file.read_text() == (GOLDEN / "vgg16-hypar.json").read_text()


def test_an_edited_model_is_found_out_by_layer_and_level(tmp_path: Path) -> None:
    """The model beside the plan is the one that counts."""
    file = edited(tmp_path, lambda data: None)
    text = data_file("models", "vgg16").read_text()
    (tmp_path / "vgg16.yaml").write_text(text.replace("name: fc2, op: linear, out_features: 4096",
                                                      "name: fc2, op: linear, out_features: 2048"))  # fmt: skip
    result = check(str(file))
    assert result.exit_code == 1
    assert "model 'vgg16' is not what was planned" in result.stdout
    assert "  fc2 H1-H4 " in result.stdout


def test_every_plan_is_judged_even_where_one_cannot_be_read(tmp_path: Path) -> None:
    good, bad = GOLDEN / "sfc-hypar.json", tmp_path / "bad.json"
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


def test_a_plan_is_not_rewritten_for_another_model(tmp_path: Path) -> None:
    file = edited(tmp_path, set_choice)
    before = file.read_text()
    result = check(str(file), "--model", "sfc", "--update")
    assert (result.exit_code, file.read_text()) == (3, before)
    assert "model.name: found 'vgg16'; allowed: 'sfc', as --model says" in result.stderr


def test_a_comment_in_the_model_changes_nothing(tmp_path: Path) -> None:
    file = edited(tmp_path, lambda data: None)
    (tmp_path / "vgg16.yaml").write_text("# a comment\n" + data_file("models", "vgg16").read_text())
    assert check(str(file)).exit_code == 0
    assert check(str(file), "--model", "vgg16").exit_code == 0
    assert check(str(file), "--model", "sfc").exit_code == 3
