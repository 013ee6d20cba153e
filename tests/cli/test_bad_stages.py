"""What cannot be of stages gets one line that says what was found and what is allowed, and leaves nothing behind."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from hypar import plan_model
from hypar.registry import data_file
from tests.cli.test_bad_input import DELETED, Where, assert_refused
from tests.heterogeneous import group, groups_of, kind, write_machine

TIMES = {
    "schema": "hypar.profile/1",
    "model": {"name": "lenet-c", "digest": "sha256:0", "batch": 256},
    "device": "cpu",
    "ways": 2,
    "seconds": {"conv1": {"n2": 1.0}},
}

SMALL = data_file("hardware", "hmc").read_text().replace("capacity: {value: 8 GB", "capacity: {value: 1 MB")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("--stages 0", "stages: found 0; allowed: a whole number from 1 to 1,048,576, or best"),
        ("--stages -1", "stages: found -1; allowed: a whole number from 1 to 1,048,576, or best"),
        ("--stages x", "stages: found 'x'; allowed: a whole number, or best"),
        ("--stages 1.5", "stages: found '1.5'; allowed: a whole number, or best"),
        ("--stages 99", "stages: found 99; allowed: 1 to 4, one for each layer that is cut"),
        (f"--stages {10**30}", "allowed: a whole number from 1 to 1,048,576, or best"),
        ("--stages 2 --schedule nonsense", "no schedule 'nonsense'; allowed: layer-block, gpipe, 1f1b"),
        ("--schedule gpipe", "schedule: given without stages; allowed: stages, as --stages 4"),
        ("--stages 1 --schedule gpipe", "schedule: given without stages"),
        ("--microbatches 2", "microbatches: given without stages"),
        ("--stages 2 --levels 1 --microbatches 3", "microbatches: found 3; allowed: a divisor of the batch 256"),
        ("--stages 2 --levels 1 --microbatches 0", "microbatches: found 0; allowed: a whole number from 1"),
        ("--stages 2 --levels 1 --microbatches 512", "microbatches: found 512; allowed: a divisor of the batch"),
        ("--stages 2 --levels 1 --microbatches 2 --schedule layer-block",
         "microbatches: found 2; allowed: 1, as 'layer-block' takes whole mini-batches"),
        ("--stages best --microbatches 3", "microbatches: found 3; allowed: a divisor of the batch 256"),
        ("--stages best --starts conv1,fc1", "starts: given together with the best stages; allowed: one of the two"),
        ("--starts conv1,fc1 --balance macs", "starts: given together with a balance; allowed: one of the two"),
        ("--starts conv1,fc1 --stages 3", "stages: found 3 and starts of 2; allowed: one of the two"),
        ("--starts conv1,fc9 --levels 1", "starts: no layer is named 'fc9'; did you mean 'fc2'?"),
        ("--starts conv1,pool1 --levels 1", "starts: found 'pool1', which stays with the layer before it; allowed: layers that are cut, as 'conv2'"),
        ("--starts conv1", "starts: given without stages; allowed: stages, as --stages 4"),
        ("--balance memory", "balance: given without stages; allowed: stages, as --stages 4"),
        ("--stages 2 --levels 1 --balance speed", "no balance 'speed'; allowed: time, memory, traffic, macs"),
        ("--stages 4 --levels 3", "hardware 'hmc': found an array of 32 devices (4x2x2x2); allowed: at most 16"),
        ("--stages 3 --array 3", "hardware 'hmc': found an array of 9 devices (3x3); allowed: a divisor of 16"),
        ("--stages 2 --array 3", "hardware 'hmc': found an array of 6 devices (2x3); allowed: a divisor of 16"),
        ("--stages best --levels 5", "hardware 'hmc': found an array of 32 devices"),
        ("--stages 2 --levels -1", "levels: found -1; allowed: a whole number from 0 to 20"),
        ("--stages best --levels 0", "levels: found 0; allowed: a whole number from 1 to 20"),
        ("--stages 2 --levels 0 --explain", "explain: no layer is cut inside the stages; allowed: a plan with levels"),
        ("--stages 2 --levels 0 --pin fc1=mp", "pins: given where no layer is cut; allowed: levels inside"),
        ("--stages 2 --levels 0 --solver chian", "no solver 'chian'"),
        ("--stages 2 --levels 0 --search gredy", "no search 'gredy'"),
        ("--stages 2 --levels 0 --cost volum", "no cost 'volum'"),
    ],
)  # fmt: skip
def test_a_bad_option(arguments: str, part: str) -> None:
    assert_refused(["plan", "lenet-c", "--hardware", "hmc", "-o", "out.json", *arguments.split()], (part,))


@pytest.mark.parametrize("stages", ["2", "best"])
def test_stages_without_a_machine(stages: str) -> None:
    part = "stages: no machine is named; allowed: one, as --hardware hmc"
    assert_refused(["plan", "lenet-c", "--stages", stages, "-o", "out.json"], (part,))


def test_stages_on_one_device() -> None:
    asked = ["plan", "lenet-c", "--stages", "2", "-o", "out.json"]
    part = "hardware 'eyeriss': found an array of 2 devices (2); allowed: at most 1"
    assert_refused([*asked, "--levels", "0", "--hardware", "eyeriss"], (part,))


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("--stages 3", "stages: found 3 where 'tpu-v2-v3' has 2 groups of identical devices; allowed: a multiple of 2"),
        ("--stages 6", "stages: found 3 in group 'tpu-v2' of 128 devices; allowed: equally many devices in each, or levels inside"),
        ("--stages 4 --levels 7", "levels: found 128 devices in each of 2 stages of 'tpu-v2'; allowed: at most its 128 devices"),
        ("--stages 2 --levels 8", "levels: found 256 devices in the stage of 'tpu-v2'; allowed: at most its 128 devices"),
        ("--stages 4 --array 3", "hardware 'tpu-v2': found an array of 6 devices (2x3); allowed: a divisor of 128"),
        ("--stages 2 --array 3", "hardware 'tpu-v2': found an array of 3 devices (3); allowed: a divisor of 128"),
        ("--stages 256 --levels 0", "stages: found 256; allowed: 1 to 4, one for each layer that is cut"),
        ("--stages 2 --profile times.json", "profile: the devices of hardware 'tpu-v2-v3' are heterogeneous; allowed: a machine of identical devices"),
        ("--stages 2 --shares equal", "shares: given with stages, each on one device group; allowed: none"),
        ("--stages 2 --integral", "integral: given with stages, each on one device group; allowed: none"),
        ("--stages 2 --levels 2 --pin fc1@H3=mp", "pin 'fc1@H3=mp': found level 'H3'; allowed: H1 to H2"),
    ],
)  # fmt: skip
def test_stages_on_groups_of_devices(arguments: str, part: str) -> None:
    Path("times.json").write_text(json.dumps(TIMES))
    assert_refused(
        ["plan", "lenet-c", "--hardware", "tpu-v2-v3", "-o", "out.json", *arguments.split()], (part,)
    )


def test_stages_on_groups_of_groups() -> None:
    kinds = {name: kind(devices=4) for name in "abc"}
    first, second, third = (group(f"{name}.yaml") for name in kinds)
    write_machine(Path(), kinds, [first, groups_of("pair", second, third)])
    part = "array: found 3 ways where 'mixed' has 2 groups; allowed: 2"
    asked = ["plan", "lenet-c", "--hardware", "mixed.yaml", "-o", "out.json"]
    assert_refused([*asked, "--stages", "2", "--array", "3"], (part.replace("mixed", "pair"),))
    assert_refused([*asked, "--array", "3xs2x2"], (part,))


def test_stages_that_do_not_fit() -> None:
    Path("small.yaml").write_text(SMALL)
    asked = ["plan", "lenet-c", "--levels", "1", "--hardware", "small.yaml", "-o", "out.json"]
    part = "hardware 'small': no 2 stages fit 1.00 MB, the memory of a device; try more stages, or a smaller batch"
    assert_refused([*asked, "--stages", "2"], (part,), status=1)


PLAN: dict[str, Any] = plan_model("lenet-c", stages=2, levels=1, hardware="hmc").to_data()
GROUPED: dict[str, Any] = plan_model("lenet-c", stages=2, levels=1, hardware="tpu-v2-v3").to_data()
UNCUT: dict[str, Any] = plan_model("lenet-c", stages=2, levels=0, hardware="hmc").to_data()
WHOLE: dict[str, Any] = plan_model("sconv", stages="best", levels=1, hardware="hmc").to_data()
FIRST: Where = ("stages", "stages", 0)


def put(plan: dict[str, Any], where: Where, value: Any) -> str:
    """The text of a plan with one value replaced, added or, by ``DELETED``, taken out."""
    data = deepcopy(plan)
    inside = data
    for part in where[:-1]:
        inside = inside[part]  # type: ignore[index]
    if value is DELETED:
        del inside[where[-1]]  # type: ignore[arg-type]
    else:
        inside[where[-1]] = value  # type: ignore[index]
    return json.dumps(data)


PLANS: dict[str, tuple[str, str]] = {
    "layer missing": (
        put(PLAN, (*FIRST, "layers"), ["conv1"]),
        "bad.json: stages: found other layers than those of level 0; allowed: each once, in order",
    ),
    "layer twice": (
        put(PLAN, (*FIRST, "layers"), ["conv1", "conv2", "conv2"]),
        "bad.json: stages: found a layer twice; allowed: each once",
    ),
    "layer twice, not cut": (
        put(UNCUT, (*FIRST, "layers"), ["conv1", "conv2", "fc2"]),
        "bad.json: stages: found a layer twice; allowed: each once",
    ),
    "wrong order": (
        put(PLAN, ("stages", "stages"), PLAN["stages"]["stages"][::-1]),
        "bad.json: stages: found other layers than those of level 0; allowed: each once, in order",
    ),
    "no layers": (put(PLAN, (*FIRST, "layers"), []), "stages.stages[0].layers: found []; allowed: at least 1"),
    "no stages": (put(PLAN, ("stages", "stages"), []), "bad.json: stages.stages: found []; allowed: at least 1"),
    "stage taken out": (
        put(PLAN, FIRST, DELETED),
        "bad.json: stages.asked: found 2; allowed: 1, as there are, or best",
    ),
    "negative busy": (put(PLAN, (*FIRST, "busy_s"), -1), "stages.stages[0].busy_s: found -1; allowed: at least 0"),
    "negative bottleneck": (put(PLAN, ("stages", "bottleneck_s"), -1), "stages.bottleneck_s: found -1; allowed"),
    "half in flight": (put(PLAN, (*FIRST, "in_flight"), 0.5), "in_flight: found 0.5; allowed: a whole number"),
    "negative staleness": (put(PLAN, (*FIRST, "staleness"), -1), "staleness: found -1; allowed: at least 0"),
    "unknown key": (
        put(PLAN, ("stages", "shcedule"), "1f1b"),
        "bad.json: stages.shcedule: unknown key 'shcedule'; allowed: asked, array, solver, schedule, parts",
    ),
    "unknown key of a stage": (put(PLAN, (*FIRST, "bsy_s"), 1), "stages.stages[0].bsy_s: unknown key 'bsy_s'"),
    "missing key": (put(PLAN, (*FIRST, "busy_s"), DELETED), "stages.stages[0].busy_s: 'busy_s' is missing"),
    "unknown schedule": (
        put(PLAN, ("stages", "schedule"), "nonsense"),
        "bad.json: stages.schedule: found 'nonsense'; allowed: layer-block, gpipe, 1f1b",
    ),
    "microbatches that divide nothing": (
        put(PLAN, ("stages", "microbatches"), 3),
        "bad.json: stages.microbatches: found 3; allowed: a divisor of the batch 256",
    ),
    "no microbatches": (put(PLAN, ("stages", "microbatches"), 0), "microbatches: found 0; allowed: at least 1"),
    "microbatches in blocks": (
        put(PLAN, ("stages", "schedule"), "layer-block"),
        "bad.json: stages.microbatches: found 2; allowed: 1, as 'layer-block' takes whole mini-batches",
    ),
    "asked for nonsense": (put(PLAN, ("stages", "asked"), "most"), "bad.json: stages.asked: found 'most'; allowed:"),
    "asked for one": (put(PLAN, ("stages", "asked"), 1), "bad.json: stages.asked: found 1; allowed: 2, as there are"),
    "asked for none": (put(PLAN, ("stages", "asked"), 0), "bad.json: stages.asked: found 0; allowed: at least 1"),
    "unknown balance": (
        put(PLAN, ("stages", "balance"), "speed"),
        "bad.json: stages.balance: found 'speed'; allowed: time, memory, traffic, macs",
    ),
    "a balance without its bottleneck": (
        put(PLAN, ("stages", "balance"), "macs"),
        "bad.json: stages.bottleneck: found nothing; allowed: one in the unit of a balance other than time",
    ),
    "a bottleneck without its balance": (
        put(PLAN, ("stages", "bottleneck"), 1),
        "bad.json: stages.bottleneck: found 1; allowed: one in the unit of a balance other than time",
    ),
    "starts and a balance": (
        put({**PLAN, "stages": {**PLAN["stages"], "starts": True}}, ("stages", "balance"), "macs"),
        "bad.json: stages.starts: found together with balance 'macs'; allowed: one of the two",
    ),
    "starts of the best": (
        put(WHOLE, ("stages", "starts"), True),
        "bad.json: stages.starts: found together with the best stages; allowed: one of the two",
    ),
    "microbatches asked for beside stages": (
        put(PLAN, ("stages", "asked_microbatches"), 2),
        "bad.json: stages.asked_microbatches: found 2; allowed: none where a number of stages was asked for",
    ),
    "best over no array": (put(PLAN, ("stages", "asked"), "best"), "array: found nothing; allowed: one where the best"),
    "an array that was not asked for": (put(PLAN, ("stages", "array"), [2]), "array: found [2]; allowed: one where"),
    "very many devices": (put(PLAN, ("array",), [2**20]), "bad.json: splits do not match the array [1048576]"),
    "very many devices to try": (
        put(WHOLE, ("stages", "array"), [2] * 21), "bad.json: stages: found 1; allowed: at most 1,048,576 identical devices",
    ),
    "another array": (put(WHOLE, ("stages", "array"), [2, 2]), "bad.json: stages: found 1 over [2]; allowed: [2, 2]"),
    "no score": (put(PLAN, ("score",), DELETED), "bad.json: stages: found 2; allowed: at most 1,048,576 identical devices"),
    "no groups": (put(PLAN, ("score", "groups"), DELETED), "bad.json: score.groups: found others than the stages"),
    "one stage without its group": (
        put(GROUPED, (*FIRST, "group"), DELETED),
        "bad.json: stages.stages: found the groups [None, 'tpu-v2']; allowed: equally many consecutive stages on each group",
    ),
    "both stages on one group": (
        put(GROUPED, (*FIRST, "group"), "tpu-v2"),
        "bad.json: splits: found group 'tpu-v3', which no uneven split names",
    ),
    "another group": (
        put({**GROUPED, "splits": []}, (*FIRST, "group"), "tpu-v4"),
        "bad.json: arrays.tpu-v4: found nothing; allowed: [], as its splits",
    ),
    "other ways than the array of a group": (
        put(GROUPED, ("arrays", "tpu-v3"), [4]),
        "bad.json: arrays.tpu-v3: found [4]; allowed: [2], as its splits",
    ),
    "an array of all groups": (
        put(GROUPED, ("array",), [2]),
        "bad.json: array: found [2]; allowed: no array and a score on a heterogeneous machine",
    ),
    "shares of groups in stages": (
        put(GROUPED, ("shares",), "equal"),
        "bad.json: stages: found a path or shares; allowed: none, as no group shares a layer",
    ),
    "no stages at all": (put(UNCUT, ("stages",), DELETED), "bad.json: splits: found []; allowed: at least 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANS)
@pytest.mark.parametrize(
    "command",
    [["show", "bad.json"], ["score", "bad.json"], ["check", "bad.json", "--update"]],
    ids=" ".join,
)
def test_a_bad_plan_file(command: list[str], case: str) -> None:
    text, part = PLANS[case]
    Path("bad.json").write_text(text)
    assert_refused(command, (part,))


def test_layers_of_another_network() -> None:
    """Of stages that are not cut only the network says which layers there are."""
    Path("bad.json").write_text(put(UNCUT, (*FIRST, "layers"), ["conv1"]))
    part = "bad.json: stages: the layers are not those of 'lenet-c'; allowed: a plan of this model"
    assert_refused(["score", "bad.json"], (part,))
