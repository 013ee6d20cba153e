"""Bad input about heterogeneous machines gets one line that says where, what was found and what is allowed."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from hypar import plan_model
from hypar.errors import InputError
from hypar.machine.load_heterogeneous import as_hardware, load_hardware
from tests.cli.test_bad_input import assert_refused

OUTWARD = {"bandwidth": {"value": "1 GB/s", "source": "a test"}}
GROUP = {"hardware": "tpu-v2", "outward": OUTWARD}
OTHER = {"hardware": "tpu-v3", "outward": OUTWARD}
MIXED = ["plan", "lenet-c", "--hardware", "tpu-v2-v3"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bandwidth(value: Any) -> dict[str, Any]:
    return {**GROUP, "outward": {"bandwidth": {"value": value, "source": "a test"}}}


@pytest.mark.parametrize(
    ("groups", "parts"),
    [
        ([], ("groups: found 0 groups; allowed: 2 to 8",)),
        ([GROUP], ("groups: found 1 groups; allowed: 2 to 8",)),
        ([{**GROUP, "name": f"g{n}"} for n in range(9)], ("groups: found 9 groups; allowed: 2 to 8",)),
        ([GROUP, GROUP], ("groups[1]: found a second group 'tpu-v2'; allowed: each group a name of its own",)),
        ([GROUP, {**OTHER, "name": "all"}], ("groups[1]: found a second group 'all'", "all is the whole")),
        ([GROUP, {**OTHER, "name": "a b"}], ("groups[1].name: found 'a b'",)),
        ([GROUP, {**OTHER, "groups": [GROUP, OTHER]}], ("groups[1]: found both 'hardware' and 'groups'; allowed: one",)),
        ([GROUP, {"outward": OUTWARD}], ("groups[1]: found neither 'hardware' nor 'groups'; allowed: one",)),
        ([GROUP, {"groups": [GROUP, OTHER], "outward": OUTWARD}], ("groups[1]: found groups without a name",)),
        ([GROUP, {"hardware": "tpu-v4", "outward": OUTWARD}], ("groups[1].hardware: no hardware 'tpu-v4'", "did you mean 'tpu-v")),
        ([GROUP, {**OTHER, "name": "a" * 41}], ("groups[1].name: found 'aaa", "allowed: a name of letters, digits, ., _ and -, at most 40 of them")),
        ([GROUP, {**OTHER, "hardware": "a b.yaml"}], ("groups[1]: found a group named 'a b' as its hardware file; allowed: a name of letters",)),
        ([GROUP, {**OTHER, "groups": []}], ("groups[1]: found both 'hardware' and 'groups'; allowed: one",)),
        ([GROUP, {"name": "pair", "groups": [OTHER], "outward": OUTWARD}], ("groups[1].groups: found 1 groups; allowed: 2 to 8",)),
        ([GROUP, {"name": "pair", "groups": [OTHER, GROUP], "outward": OUTWARD}], ("groups[1].groups[1]: found a second group 'tpu-v2'",)),
        ([GROUP, {"name": "pair", "groups": [OTHER, OTHER], "changes": {"devices": 2}, "outward": OUTWARD}], ("groups[1]: found changes of groups",)),
        ([GROUP, {**OTHER, "hardware": "tpu-v2-v3", "name": "both"}], ("hardware 'tpu-v2-v3' is a heterogeneous machine; allowed: a machine of identical",)),
        ([GROUP, {**OTHER, "changes": {"devices": {"value": 0, "source": "a test"}}}], ("groups[1].changes.devices: found 0; allowed: at least 1",)),
        ([{**GROUP, "outward": {**OUTWARD, "latency": {"value": "-1 us", "source": "a test"}}}, OTHER], ("groups[0].outward.latency.value: found '-1 us'; allowed: at least 0",)),
        ([GROUP, {"hardware": "gone.yaml", "outward": OUTWARD}], ("gone.yaml: cannot be read",)),
        ([GROUP, {"hardware": "tpu-v3"}], ("groups[1].outward: 'outward' is missing",)),
        ([GROUP, {**OTHER, "speed": 1}], ("groups[1].speed: unknown key 'speed'; allowed: name, hardware,",)),
        ([GROUP, {**OTHER, "changes": {"devicez": 1}}], ("groups[1].changes.devicez: not a change; allowed: topology,",)),
        ([GROUP, {**OTHER, "changes": {"topology": "h_tree", "devices": 12}}], ("h_tree: 12 devices",)),
        ([bandwidth("-1 GB/s"), OTHER], ("groups[0].outward.bandwidth.value: found '-1 GB/s'",)),
        ([bandwidth("0 GB/s"), OTHER], ("groups[0].outward.bandwidth.value: found '0 GB/s'; allowed: more than 0",)),
        ([bandwidth("nan GB/s"), OTHER], ("groups[0].outward.bandwidth.value: found 'nan GB/s'",)),
        ([bandwidth("1e400 GB/s"), OTHER], ("groups[0].outward.bandwidth.value: found '1e400 GB/s'",)),
        ([bandwidth(5), OTHER], ("groups[0].outward.bandwidth.value: found 5; allowed: a number with a unit",)),
        ([{**GROUP, "hardware": "bad.yaml"}, OTHER], ("hardware 'bad' is a heterogeneous machine",)),
        ("many", ("groups: found 'many'; allowed: a list",)),
        ([GROUP, "tpu-v3"], ("groups[1]: found 'tpu-v3'; allowed: a mapping",)),
    ],
)  # fmt: skip
def test_a_bad_file_of_groups(groups: Any, parts: tuple[str, ...]) -> None:
    Path("bad.yaml").write_text(yaml.safe_dump({"source": "a test", "groups": groups}), encoding="utf-8")
    assert_refused(["plan", "lenet-c", "--hardware", "bad.yaml", "-o", "plan.json"], parts)
    assert_refused(["hardware", "bad.yaml", "--validate"], parts)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("", "bad.yaml: the file is empty"),
        ("groups: &a [*a]", "an alias inside its own anchor"),
        ("groups: []\n", "'source' is missing"),
        ("source: a\ngroups: []\ndevice: {}\n", "unknown key 'device'; allowed: source, groups"),
    ],
)
def test_a_file_that_is_none(content: str, part: str) -> None:
    Path("bad.yaml").write_text(content, encoding="utf-8")
    assert_refused(["plan", "lenet-c", "--hardware", "bad.yaml"], (part,))


def test_more_devices_than_a_machine_has_are_refused() -> None:
    many = {"devices": {"value": 16384, "source": "a test"}, "topology": "switch"}
    groups = [{**GROUP, "changes": many}, {**OTHER, "changes": many}]
    Path("bad.yaml").write_text(yaml.safe_dump({"source": "a test", "groups": groups}), encoding="utf-8")
    assert_refused(
        ["hardware", "bad.yaml"], ("groups: found 32,768 devices in all; allowed: at most 16,384",)
    )


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--shares", "fair"], ("no shares 'fair'; allowed: equal, linear, exact, layers",)),
        (["--shares", "exact"], ("shares: cost 'volume' has no slowest device group to relieve", "allowed: equal, or cost accpar")),
        (["--strategy", "deepa", "--mode", "paper"], ("mode: found 'paper'; allowed: exact, serial; examples/papers/deepa_2018.py has the published estimates",)),
        (["--levels", "0"], ("levels: found 0; allowed: a whole number from 1 to 20",)),
        (["--levels", "9"], ("levels: found 9 levels, 1 of them uneven splits above 'tpu-v2'",)),
        (["--array", "3x2"], ("array: found 3 ways where 'tpu-v2-v3' has 2 groups; allowed: 2",)),
        (["--array", "2x3"], ("hardware 'tpu-v2': found an array of 3 devices (3); allowed: a divisor of 128",)),
        (["--pin", "fc1@H9=mp"], ("pin 'fc1@H9=mp': found level 'H9'; allowed: H1 to H8",)),
        (["--pin", "fc1@H1=n2i2"], ("pin 'fc1@H1=n2i2': found 4 devices at a level of 2 ways",)),
        (["--set", "devices=3", "--set", "topology=h_tree"], ("h_tree: 3 devices; allowed: a power of two",)),
        (["--set", "duplex=haf"], ("change duplex=haf: found 'haf'",)),
    ],
)  # fmt: skip
def test_a_bad_option(options: list[str], parts: tuple[str, ...]) -> None:
    assert_refused([*MIXED, "-o", "plan.json", *options], parts)


@pytest.mark.parametrize("options", [["--shares", "equal"], ["--integral"]])
@pytest.mark.parametrize("machine", [[], ["--hardware", "hmc"]])
def test_shares_of_like_devices_are_refused(machine: list[str], options: list[str]) -> None:
    what = options[0].removeprefix("--")
    allowed = f"{what}: all devices are identical and share equally; allowed: a heterogeneous machine"
    assert_refused(["plan", "lenet-c", *machine, *options], (allowed,))


@pytest.fixture(scope="module")
def planned() -> dict[str, Any]:
    """A plan for two different groups of two devices each, as plain data."""
    plan = plan_model(
        "lenet-c", hardware="tpu-v2-v3", strategy="accpar", shares="linear", array=[2, 2], batch=4096
    )
    assert all(plan.splits[0].shares)
    data: dict[str, Any] = json.loads(plan.to_json())
    return data


DAMAGES: dict[str, tuple[tuple[str | int, ...], Any, str]] = {
    "shares that do not sum to 1": (("splits", 0, "shares"), [0.5, 0.6], "that sum to 1"),
    "too few shares": (("splits", 0, "shares"), [1.0], "allowed: 2 that sum to 1"),
    "shares of no layer": (("splits", 0, "layer_shares"), {"fc9": [0.5, 0.5]}, "layer_shares.fc9"),
    "shares below nothing": (("splits", 0, "layer_shares"), {"fc1": [-0.5, 1.5]}, "at least 0"),
    "one group": (("splits", 0, "sides"), [{"group": "a", "received": 0, "computed": 0}], "sides: found 1"),
    "a group that has no splits": (("splits", 0, "sides", 0, "group"), "tpu-v9", "tpu-v"),
    "a group of no uneven split": (("splits", 1, "group"), "tpu-v9", "tpu-v"),
    "two groups of one name": (("splits", 0, "sides", 1, "group"), "tpu-v2", "tpu-v"),
    "another level": (("splits", 1, "level"), 5, "found levels [5]; allowed: from 1 on"),
    "another array": (("arrays", "tpu-v2"), [4], "arrays.tpu-v2: found [4]; allowed: [2]"),
    "no arrays": (("arrays",), {}, "arrays.tpu-v2"),
    "an array of its own": (("array",), [2, 2], "array: found [2, 2]; allowed: no array"),
    "a path to nowhere": (("path",), ["all", "tpu-v9"], "path: found 'tpu-v9'"),
    "an unknown key": (("splits", 0, "weight"), 1, "unknown key 'weight'"),
    "a share that is no number": (("splits", 0, "shares"), ["a", "b"], "splits[0].shares[0]: found 'a'"),
    "splits of an idle group": (
        ("splits", 0, "shares"),
        [0.0, 1.0],
        "splits of 'tpu-v2': found 1 of a group without a share",
    ),
    "an array of no group": (("arrays", "tpu-v9"), [2], "arrays: found 'tpu-v9'; allowed: tpu-v2, tpu-v3"),
    "an uneven split that one device does": (
        ("splits", 0, "choices", "fc1"),
        {"batch": 1},
        "one dim over all 2 groups of an uneven split",
    ),
    "other machines": (("score", "hardware"), "hmc", "a plan for heterogeneous device groups"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_plan(planned: dict[str, Any], damage: str) -> None:
    where, value, part = DAMAGES[damage]
    data = deepcopy(planned)
    place: Any = data
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    Path("plan.json").write_text(json.dumps(data), encoding="utf-8")
    command = "score" if damage == "other machines" else "show"
    assert_refused([command, "plan.json"], ("plan.json", part))


@pytest.mark.parametrize(
    ("shares", "part"),
    [("fair", "no shares 'fair'; allowed: equal, linear, exact, layers"), ("", "no shares ''")],
)
def test_a_plan_by_no_manner_of_shares_is_not_checked(
    planned: dict[str, Any], shares: str, part: str
) -> None:
    Path("plan.json").write_text(json.dumps(planned | {"shares": shares}), encoding="utf-8")
    assert_refused(["check", "plan.json", "--update"], (part,))


def test_a_plan_of_like_devices_names_no_shares() -> None:
    data = json.loads(plan_model("lenet-c", levels=1).to_json())
    Path("plan.json").write_text(json.dumps(data | {"shares": "exact"}), encoding="utf-8")
    assert_refused(["check", "plan.json"], ("shares: all devices are identical and share equally",))
    for changed in ({"arrays": {"a": [2]}}, {"path": ["all"]}):
        Path("plan.json").write_text(json.dumps(data | changed), encoding="utf-8")
        assert_refused(["show", "plan.json"], ("plan.json: splits: found groups without an uneven split",))


def test_a_plan_without_its_score_is_refused(planned: dict[str, Any]) -> None:
    data = {key: value for key, value in planned.items() if key != "score"}
    Path("plan.json").write_text(json.dumps(data), encoding="utf-8")
    assert_refused(["show", "plan.json"], ("score: found none",))


def test_uneven_splits_without_end_are_refused(planned: dict[str, Any]) -> None:
    data = deepcopy(planned)
    split, found = data["splits"][0], []
    for depth in range(100):
        sides = [
            {"group": f"a{depth}", "received": 0, "computed": 0},
            {"group": f"b{depth}", "received": 0, "computed": 0},
        ]
        found.append({**split, "level": depth, "group": f"a{depth - 1}" if depth else "all", "sides": sides})
    data["splits"] = found
    Path("plan.json").write_text(json.dumps(data), encoding="utf-8")
    assert_refused(["show", "plan.json"], ("more than 16 nested uneven splits",))


def test_a_plan_of_other_groups_is_not_scored(planned: dict[str, Any]) -> None:
    groups = [{**GROUP, "name": "left"}, {**OTHER, "name": "right"}]
    Path("pair.yaml").write_text(yaml.safe_dump({"source": "a test", "groups": groups}), encoding="utf-8")
    Path("plan.json").write_text(json.dumps(planned), encoding="utf-8")
    parts = ("plan.json: arrays: found tpu-v2, tpu-v3", "hardware 'pair' has the groups left, right")
    assert_refused(["score", "plan.json", "--hardware", "pair.yaml"], parts)


def test_a_memory_that_holds_no_shares_is_one_line() -> None:
    big = [
        "plan",
        "vgg16",
        "--hardware",
        "tpu-v2-v3",
        "--strategy",
        "accpar",
        "--batch",
        "4194304",
        "--levels",
        "2",
    ]
    assert_refused(
        big,
        ("hardware 'tpu-v2-v3': no shares of tpu-v2, tpu-v3 fit their memory; take a smaller batch",),
        status=1,
    )


def test_a_loaded_machine_is_not_changed_again() -> None:
    with pytest.raises(InputError, match="found a loaded machine"):
        as_hardware(load_hardware("tpu-v2-v3"), {"duplex": "half"})


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("fc9", "explain: no layer that is planned is named 'fc9'"),
        ("fc1@H3", "explain: found level 'H3'; allowed: H1 to H2"),
    ],
)
def test_what_is_not_there_is_not_explained(asked: str, part: str) -> None:
    assert_refused([*MIXED, "--levels", "2", "--explain", asked], (part,))
