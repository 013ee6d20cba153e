"""Measured times in a file: read, refused in one line, planned with and checked."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from hypar import Profile, plan_model, read_profile
from hypar.errors import ProfileError
from hypar.files.yaml_file import parse_yaml
from hypar.machine.profiles import ProfiledModel
from hypar.network.graph import build_graph
from tests.benches import lenet_profile
from tests.kit import run

PLAN = ["plan", "lenet-c", "--strategy", "deepa", "--hardware", "h100-8x", "--profile", "p.json"]
OWN = ["--batch", "32", "--array", "4"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lenet_profile().write("p.json")
    return tmp_path


def changed(*path: str, to: Any) -> None:
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
