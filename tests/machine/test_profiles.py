"""Measured times in a file: read, refused in one line, planned with and checked."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from hypar import Profile, plan_model, read_profile
from hypar.errors import InputError, ProfileError
from hypar.files.yaml_file import parse_yaml
from hypar.machine.profiles import ProfiledModel
from hypar.network.graph import build_graph
from tests.benches import lenet_profile
from tests.kit import run

PLAN = ["plan", "lenet-c", "--strategy", "deepa", "--hardware", "h100-8x", "--profile", "p.json"]
OWN = ["--batch", "32", "--array", "4"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a profile to be in."""
    monkeypatch.chdir(tmp_path)
    lenet_profile().write("p.json")
    return tmp_path


def changed(*path: str, to: Any) -> None:
    """Write the profile with another value in one place."""
    data = json.loads(Path("p.json").read_text())
    inside = data
    for part in path[:-1]:
        inside = inside[part]
    inside[path[-1]] = deepcopy(to)
    Path("p.json").write_text(json.dumps(data))


def test_a_digest_is_of_all_but_the_name() -> None:
    found = {read_profile("p.json").digest}
    for path, value in [
        (("device",), "another"),
        (("ways",), 8),
        (("model", "batch"), 64),
        (("seconds", "fc1", "n1 c1"), 1.5),
    ]:
        changed(*path, to=value)
        found.add(read_profile("p.json").digest)
    assert len(found) == 5
    Path("p.json").rename("q.json")
    assert read_profile("q.json").digest in found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "p.json: the file is empty"),
        ("{", "p.json:1: not JSON: Expecting property name enclosed in double quotes"),
        ("{}", "p.json: model: 'model' is missing"),
    ],
)
def test_a_file_that_is_no_profile_is_refused(text: str, line: str) -> None:
    Path("p.json").write_text(text)
    with pytest.raises(InputError) as caught:
        read_profile("p.json")
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (
            ("schema",),
            "hypar.profile/2",
            "p.json: schema: found 'hypar.profile/2'; allowed: 'hypar.profile/1'",
        ),
        (("name",), "q", "p.json: name: found 'q'; allowed: no such key"),
        (("times",), {}, "p.json: times: unknown key 'times'; allowed: schema, "),
        (("model", "batch"), 0, "p.json: model.batch: found 0; allowed: at least 1"),
        (("ways",), 0, "p.json: ways: found 0; allowed: at least 1"),
        (("seconds",), {}, "p.json: seconds: found {}; allowed: at least 1"),
        (("seconds", "fc1", "n1 c1"), -1, "p.json: seconds.fc1['n1 c1']: found -1; allowed: at least 0"),
        (("seconds", "fc1", "n1 c1"), 1e10, "p.json: seconds.fc1['n1 c1']: found 10000000000.0; "),
    ],
)
def test_bad_values_are_refused(path: tuple[str, ...], value: Any, line: str) -> None:
    changed(*path, to=value)
    with pytest.raises(ProfileError) as caught:
        read_profile("p.json")
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)
    result = run(*PLAN, *OWN)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == f"error: {caught.value}\n"


def refused(*arguments: str) -> str:
    """The one line with which a plan is refused."""
    result = run(*PLAN, *arguments)
    assert (result.exit_code, result.stdout) == (3, "")
    (line,) = result.stderr.splitlines()
    return line.removeprefix("error: ")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--batch", "64", "--array", "4"], "profile 'p': model.batch: found 32; allowed: 64, as planned"),
        (["--array", "4"], "profile 'p': model.batch: found 32; allowed: 256, as planned"),
        (
            ["--batch", "32", "--array", "8"],
            "profile 'p': ways: found 4; allowed: one level of them; the array is 8",
        ),
        (
            ["--batch", "32", "--array", "2x2"],
            "profile 'p': ways: found 4; allowed: one level of them; the array is 2x2",
        ),
    ],
)
def test_another_question_than_was_measured_is_refused(arguments: list[str], line: str) -> None:
    assert refused(*arguments) == line


def test_a_choice_that_was_not_measured_is_named() -> None:
    times = lenet_profile().seconds["conv2"]
    changed("seconds", "conv2", to={word: time for word, time in times.items() if word != "n2 c2"})
    line = "profile 'p': seconds.conv2: no 'n2 c2'; measure it with hypar profile, its --space as here"
    assert refused(*OWN) == line
    assert refused(*OWN, "--pin", "fc1=mp").startswith("profile 'p': seconds.")


@pytest.mark.parametrize("mode", ["exact", "serial"])
def test_a_plan_counts_the_measured_times(mode: str) -> None:
    def planned(profile: Profile | str) -> float:
        plan = plan_model(
            "lenet-c", batch=32, array=[4], strategy="deepa", hardware="h100-8x", mode=mode, profile=profile
        )
        return plan.cost.value

    own = lenet_profile()
    longer = {
        layer: {word: time + 10 for word, time in times.items()} for layer, times in own.seconds.items()
    }
    more = planned(own.model_copy(update={"seconds": longer})) - planned(own)
    assert more == pytest.approx(60, rel=0.01)
    assert planned("p.json") == planned(own)


EQUAL = """
source: three equal layers
batch: 8
layers:
  - {op: input, channels: 8}
  - {name: a, op: linear, out_features: 8}
  - {name: b, op: linear, out_features: 8}
  - {name: c, op: linear, out_features: 8}
"""


@pytest.mark.parametrize("mode", ["exact", "serial"])
def test_equal_layers_have_their_own_measured_times(mode: str) -> None:
    graph = build_graph(parse_yaml(EQUAL, Path("net.yaml")), "net")
    model = ProfiledModel(name=graph.name, digest=graph.digest, batch=graph.batch)
    words = ("n2 c1", "n1 c2", "n1 c1")
    times: dict[str, dict[str, float]] = {
        name: dict.fromkeys(words, seconds) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 4.0))
    }
    asked = {"array": [2], "strategy": "deepa", "hardware": "p100-4x4", "mode": mode, "pins": "*=n1"}
    profile = Profile(model=model, device="made up", ways=2, seconds=times)
    assert plan_model(graph, profile=profile, **asked).splits[0].costs == {"a": 1, "b": 2, "c": 4}  # type: ignore[arg-type]
    del times["b"]
    with pytest.raises(ProfileError, match="no layer 'b'"):
        plan_model(graph, profile=profile.model_copy(update={"seconds": times}), **asked)  # type: ignore[arg-type]


def test_a_plan_is_checked_with_the_profile_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(*PLAN, *OWN, "-o", "plan.json").exit_code == 0
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    plan = str(folder / "plan.json")
    assert run("check", plan).stdout == f"ok       {plan}\n"
    (folder / "p.json").rename(folder / "q.json")
    result = run("check", plan)
    assert result.exit_code == 3
    looked = "looked beside the plan and here; name its file with --profile"
    assert result.stderr == f"error: {plan}: profile.name: no profile 'p'; {looked}\n"
    assert run("check", plan, "--profile", str(folder / "q.json")).exit_code == 0


def test_a_changed_profile_is_refused() -> None:
    assert run(*PLAN, *OWN, "-o", "plan.json").exit_code == 0
    changed("seconds", "fc1", "n1 c1", to=5)
    result = run("check", "plan.json")
    line = "plan.json: profile.digest: p.json is not what was planned with: it has changed"
    assert (result.exit_code, result.stderr) == (3, f"error: {line}\n")


@pytest.mark.parametrize("cost", ["time", "volume"])
def test_a_cost_that_counts_no_measured_times_is_given_none(cost: str) -> None:
    line = f"profile: cost {cost!r} counts no measured times; allowed: a cost that does, as deepa"
    assert refused(*OWN, "--cost", cost, "-o", "plan.json") == line
    assert not Path("plan.json").exists()
