"""``hypar verify``: its exit status, what it prints, and one line for what it cannot do."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hypar.execution.verify import verify_program
from hypar.studies import verify as module
from tests.goldens import golden
from tests.kit import run
from tests.prose import unbroken

SFC, LENET, STAGES = (f"{name}.json" for name in ("sfc-hypar", "lenet-c-hypar", "resnet18-stages"))
STATED = [
    ("lenet-c-hypar", "cost/value", "plan cost"),
    ("lenet-c-hypar", "splits/0/cost", "H1 cost"),
    ("lenet-c-hypar", "splits/1/costs/fc1", "fc1 H2 cost"),
    ("lenet-c-scored", "score/time_s", "plan time_s"),
    ("lenet-c-scored", "score/communication/H1", "plan communication H1"),
    ("lenet-c-scored", "score/energy/memory", "plan energy memory"),
    ("lenet-c-scored", "score/memory/weights", "plan memory weights"),
    ("lenet-c-best-stages", "stages/bottleneck_s", "plan bottleneck_s"),
    ("resnet18-stages", "splits/0/costs/fc", "fc H1 cost"),
    ("lenet-c-stages-on-groups", "splits/0/costs/conv1", "conv1 tpu-v2 H1 cost"),
]
"""Results in golden plans, and their names where they are not what is counted."""


@pytest.fixture(autouse=True)
def _plans(folder: Path) -> None:
    for file in (SFC, LENET, STAGES):
        golden(file.removesuffix(".json")).write(folder / file)


def test_a_plan_whose_numbers_and_bytes_agree_exits_0() -> None:
    result = run("verify", SFC, "--shrink")
    assert result.exit_code == 0
    words = unbroken(result.stdout)
    assert "sfc: the numbers of 16 devices equal those of one device, and every level moved what was" in words
    assert "planned: volume counted by paper" in words
    assert "smaller than planned: batch 256 to 4" in words
    assert "counted the paper counts" in words
    assert "allowed: 1e-10" in words


def test_a_plan_whose_numbers_differ_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module, "verify_program", lambda program, **named: verify_program(program, without=1, **named)
    )
    result = run("verify", SFC, "--shrink")
    assert result.exit_code == 1
    assert "differ from those of one device, but every level moved" not in result.stdout
    assert "differ from those of one device" in unbroken(result.stdout)
    found = json.loads(run("verify", SFC, "--shrink", "--json").stdout)
    assert (found["ok"], found["numbers"]["agree"]) == (False, False)
    assert found["numbers"]["worst_tensor"] in result.stdout


def test_rounding_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last digits of floats, which depend on the processor, are in no output."""

    def rounded(*given: Any, **named: Any) -> Any:
        found = verify_program(*given, **named)
        return replace(
            found, loss=found.loss * (1 - 1e-15), errors=dict.fromkeys(reversed(found.errors), 3e-15)
        )

    asked = [["verify", SFC, "--shrink", *options] for options in ([], ["--json"])]
    before = [run(*one).stdout for one in asked]
    monkeypatch.setattr(module, "verify_program", rounded)
    assert [run(*one).stdout for one in asked] == before
    assert "worst relative error below 1e-12; allowed: 1e-10" in before[0]


@pytest.mark.parametrize(("name", "place", "named"), STATED)
def test_a_result_that_is_not_what_is_counted_is_named_and_exits_1(name: str, place: str, named: str) -> None:
    data = golden(name).to_data()
    *keys, last = place.split("/")
    entry: Any = data
    for key in keys:
        entry = entry[int(key)] if isinstance(entry, list) else entry[key]
    counted, entry[last] = entry[last], entry[last] * 2 + 1
    Path("changed.json").write_text(json.dumps(data), encoding="utf-8")
    result = run("verify", "changed.json", "--count")
    assert result.exit_code == 1
    assert "results are not as stated" in unbroken(result.stdout)
    assert re.search(rf"^{named} +{entry[last]:,} +{counted:,}$", result.stdout, re.MULTILINE), result.stdout
    found = json.loads(run("verify", "changed.json", "--count", "--json").stdout)
    assert [(each["before"], each["after"]) for each in found["changes"]] == [(entry[last], counted)]


def test_a_device_that_holds_more_than_the_score_says_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution of which a device has an element more than its piece."""
    golden("lenet-c-scored").write(Path("scored.json"))
    found = json.loads(run("verify", "scored.json", "--shrink", "--json").stdout)
    (memory,) = found["memory"]
    assert (found["ok"], memory["group"], memory["said_bytes"]) == (True, "all", memory["held_bytes"])

    def fuller(*given: Any, **named: Any) -> Any:
        found = verify_program(*given, **named)
        return replace(found, elements={name: own + (own > 0) for name, own in found.elements.items()})

    monkeypatch.setattr(module, "verify_program", fuller)
    result = run("verify", "scored.json", "--shrink")
    assert result.exit_code == 1
    assert "moved what was counted; a device held more than is said" in unbroken(result.stdout)
    more = json.loads(run("verify", "scored.json", "--shrink", "--json").stdout)
    assert more["memory"][0]["held_bytes"] > more["memory"][0]["said_bytes"]


def test_counting_runs_nothing_and_exits_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "verify_program", None)
    result = run("verify", LENET, "--count")
    assert result.exit_code == 0
    assert "counted on 16 devices, nothing was run" in result.stdout
    assert "moved" not in result.stdout.partition("\n\n")[2].partition("\n")[0]
    found = json.loads(run("verify", LENET, "--count", "--json").stdout)
    assert found["numbers"] is None
    assert {level["moved_bytes"] for level in found["levels"]} == {None}


def test_transfers_are_listed_one_by_one_if_asked() -> None:
    parts, full = (run("verify", LENET, "--count", *options).stdout for options in ((), ("--full",)))
    assert re.search(r"^fc2 +relu1 +backward +input +H1 +[\d,]+$", full, re.MULTILINE)
    assert "relu1" not in parts
