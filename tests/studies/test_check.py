"""``hypar check`` of plans of every kind, each value of whose files is changed, one at a time."""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hypar import Plan, check_plan, plan_model, profile_model, read_plan
from hypar.errors import HyparError
from hypar.machine.load import load_machine
from hypar.network.graph import LayerGraph, load_model
from hypar.planning.planner import follow
from hypar.planning.resolved import Resolved
from hypar.registry import data_file, load_plugin, own_plugins
from hypar.solve.cost_graph import CostGraph, Solution
from hypar.solve.solvers.named import Bounded
from tests.benches import FakeBench
from tests.effort import examples, late
from tests.heterogeneous import group, kind, write_machine
from tests.kit import FREE, known, run

Place = tuple[str | int, ...]

NET = """
source: made up
batch: 8
layers:
  - {op: input, channels: 4, height: 8, width: 8}
  - {name: stem, op: conv, out_channels: 6, kernel: 3, padding: 1}
  - {name: pool, op: pool, mode: max, kernel: 2}
  - {name: side, op: conv, out_channels: 6, kernel: 1}
  - {name: sum, op: add, inputs: [side, pool]}
  - {op: flatten}
  - {name: fc, op: linear, out_features: 12}
"""

KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"levels": 2, "inter_weight": 0.5},
    "optimal": {"levels": 2, "strategy": "optimal"},
    "bounded": {"levels": 2, "search": "joint", "space": "all", "solver": "bounded"},
    "bounded by level": {"levels": 2, "space": "all", "solver": "bounded"},
    "pinned": {"levels": 2, "strategy": "accpar", "pins": ["fc@H1=mp", "s*=dp"]},
    "scored": {"levels": 2, "hardware": "hmc", "optimizer": "adam", "changes": {"duplex": "half", "topology": "torus"}},
    "time": {"array": [4], "hardware": "h100-8x", "cost": "time", "space": "all", "search": "joint"},
    "refined": {"levels": 2, "hardware": "hmc", "cost": "time", "refine": True},
    "by paper": {"levels": 2, "hardware": "hmc", "strategy": "optimal", "convention": "paper"},
    "fused": {"levels": 2, "hardware": "hmc", "convention": "fused"},
    "deepa": {"array": [4], "hardware": "p100-4x4", "strategy": "deepa", "mode": "serial", "pins": ["fc=c1"]},
    "profile": {"array": [4], "hardware": "p100-4x4", "strategy": "deepa", "profile": "p.json"},
    "chunks": {"array": [4], "hardware": "h100-8x", "changes": {"latency": "20 us"}, "strategy": "dp", "chunks": "best"},
    "chunks by size": {"array": [4], "hardware": "h100-8x", "strategy": "dp", "chunks": 2},
    "stages": {"stages": 2, "levels": 1, "hardware": "hmc", "schedule": "gpipe", "microbatches": 4, "solver": "elimination"},
    "stages, not cut": {"stages": 2, "levels": 0, "hardware": "hmc"},
    "best stages": {"stages": "best", "levels": 2, "hardware": "hmc"},
    "stages on groups": {"stages": 2, "hardware": "mixed.yaml", "schedule": "gpipe", "microbatches": 4, "chunks": "layers"},
    "unlike groups": {"model": "small.yaml", "hardware": "mixed.yaml", "strategy": "accpar", "shares": "linear"},
    "shares of layers": {"model": "small.yaml", "hardware": "mixed.yaml", "strategy": "accpar", "shares": "layers"},
    "volume of unlike groups": {"model": "small.yaml", "hardware": "mixed.yaml", "levels": 2},
}  # fmt: skip
"""A plan of each kind, as ``plan_model`` is asked for it."""


SMALL = """
source: made up
batch: 8
layers:
  - {op: input, channels: 40}
  - {name: fc1, op: linear, out_features: 24}
  - {name: fc2, op: linear, out_features: 12}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose(Bounded):
    """A solver whose bound is a tenth below what it finds."""

    def solve(self, problem: CostGraph) -> Solution:
        found = Bounded().solve(problem)
        return replace(found, bound=0.9 * found.cost)


class Flip(NamedTuple):
    """A plan file with one thing changed: where, how, and the text of the file."""

    place: Place
    what: str
    text: str

    @property
    def free(self) -> bool:
        place = ".".join(map(str, self.place))
        return any(fnmatchcase(place, pattern) for pattern in FREE)


WORDS: dict[str, tuple[str | int, ...]] = {
    "strategy": ("dp", "accpar"),
    "space": ("all", "in_channels,batch"),
    "search": ("joint", "greedy"),
    "solver": ("chain", "elimination", "bounded"),
    "name": ("accpar", "time", "volume"),
    "shares": ("exact", "equal"),
    "asked": ("layers", "one", "best", 2),
    "optimizer": ("sgd", "momentum"),
    "schedule": ("1f1b", "layer-block"),
    "mode": ("exact", "serial"),
    "duplex": ("full",),
    "convention": ("moved", "fused"),
    "topology": ("ring",),
}
"""Other words that are allowed where one stands."""

MORE: dict[str, dict[str, Any]] = {
    "": {"graph": "operators", "arrays": {}, "shares": "equal", "convention": "moved", "path": ["all"],
        "profile": {"name": "p", "digest": "d"}, "files": {"model": "net.yaml"}, "bounds": [0],
        "refined": {"before_s": 1.0, "after_s": 1.0, "changed": 0}, "chunks": {"asked": "layers",
        "layers": [], "alone_s": 1.0}},
    "stages": {"array": [2, 2], "solver": "chain"},
    "score": {"convention": "fused"},
    "splits.0": {"layer_shares": {}},
}  # fmt: skip
"""What a part of a plan file may say besides."""


def flips(data: dict[str, Any]) -> Iterator[Flip]:
    """Everything that may be changed in a plan file, one thing at a time; what only is written otherwise is none."""
    root = deepcopy(data)
    for holder, place in [*_places(root, ())]:
        own = holder[place[-1]]
        for other in _others(place, own):
            holder[place[-1]] = other
            yield Flip(place, f"{json.dumps(own):.80} -> {json.dumps(other):.80}", json.dumps(root))
        holder[place[-1]] = own
        if isinstance(holder, dict) and own not in ({}, []):
            items = [*holder.items()]
            del holder[place[-1]]
            yield Flip(place, "left out", json.dumps(root))
            holder.clear()
            holder.update(items)
    for holder, place in [({"": root}, ("",)), *_places(root, ())]:
        inside = holder[place[-1]]
        more = MORE.get(".".join(map(str, place)), {}) | {"unknown": 1}
        for key in more.keys() - inside.keys() if isinstance(inside, dict) else ():
            inside[key] = more[key]
            yield Flip((*filter(str, place), key), f"given: {more[key]}", json.dumps(root))
            del inside[key]


def _places(data: Any, place: Place) -> Iterator[tuple[Any, Place]]:
    """Every place below some data, each with the mapping or list that it is in."""
    for key in [*data] if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ():
        yield data, (*place, key)
        yield from _places(data[key], (*place, key))


def _others(place: Place, own: Any) -> Iterator[Any]:
    if isinstance(own, bool):
        yield not own
    elif isinstance(own, int | float):
        yield from (own + 1, *filter(None, [own * (1 + 1e-6)]))
    elif isinstance(own, str):
        yield from (f"{own}x", own[:-1], *(word for word in WORDS.get(str(place[-1]), ()) if word != own))
    elif isinstance(own, list):
        turned = [*own[1:], *own[:1]]
        yield from (other for other in (own[1:], [*own, *own[-1:]], turned) if other != own)
    elif isinstance(own, dict) and place[-1] in {"choices", "costs", "layer_shares"} and len(own) > 1:
        yield dict(reversed(own.items()))
    yield 1 if own is None else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    (folder / "net.yaml").write_text(NET)
    (folder / "again.yaml").write_text(NET)
    (folder / "small.yaml").write_text(SMALL)
    (folder / "sole.yaml").write_text(SMALL[: SMALL.index("  - {name: fc2")])
    kinds = {"a": kind(devices=2, peak="3 GFLOP/s"), "b": kind(devices=2, peak="1 GFLOP/s", link="5 GB/s")}
    write_machine(folder, kinds, [group("a.yaml", bandwidth="900 GB/s"), group("b.yaml")])
    profile_model(folder / "net.yaml", ways=4, repeats=1, bench=FakeBench()).write(folder / "p.json")
    (folder / "q.json").write_text((folder / "p.json").read_text())
    (folder / "mixed2.yaml").write_text((folder / "mixed.yaml").read_text())
    (folder / "slow.yaml").write_text((folder / "mixed.yaml").read_text().replace("900 GB/s", "1 MB/s"))
    return folder


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Be in the folder, with a solver that leaves a gap."""
    monkeypatch.chdir(folder)
    monkeypatch.setitem(own_plugins("solvers"), "bounded", Loose())
    load_plugin.cache_clear()
    yield
    load_plugin.cache_clear()


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypar.planning.sources.load_model", lru_cache(load_model))
    monkeypatch.setattr("hypar.planning.sources.load_machine", once(load_machine))
    monkeypatch.setattr("hypar.studies.check.follow", once(follow))


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which answers what it was asked before, or refuses it, as it did then."""
    known: dict[str, Any] = {}

    def asked(*arguments: Any) -> Any:
        key = repr(arguments) + "".join(map(digests, arguments))
        if key not in known:
            try:
                known[key] = function(*arguments)
            except HyparError as error:
                known[key] = error
        if isinstance(known[key], HyparError):
            raise known[key]
        return known[key]

    return asked


def digests(argument: Resolved | LayerGraph | object) -> str:
    """What the text of a request or a network does not say."""
    if isinstance(argument, Resolved):
        return "".join(digests(part) for part in (argument.machine, argument.heterogeneous, argument.profile))
    return str(getattr(argument, "digest", "")) + str(getattr(argument, "batch", ""))


def planned(*, hardware: str | None = None, changes: Any = None, **asked: Any) -> Plan:
    machine = None if hardware is None else load_machine(hardware, changes or {})
    return plan_model(**{"model": "net.yaml", "hardware": machine, **asked})


check = partial(run, "check")


LATE = (
    "shares of layers", "refined", "by paper", "fused", "deepa", "chunks by size", "stages, not cut",
    "volume of unlike groups", "best stages", "profile", "chunks", "optimal", "bounded by level", "stages",
    "time",
)  # fmt: skip
"""Plans whose files have the fields of another kind's."""


@pytest.mark.usefixtures("replayed")
@pytest.mark.parametrize("name", late(KINDS, *LATE))
def test_every_change_of_a_file_is_seen(name: str, tmp_path: Path) -> None:
    """Or what was asked for is another request, whose plan the file then is. The quick run makes every other change."""
    plan = planned(**KINDS[name])
    plan.write("plan.json")
    assert check("plan.json").exit_code == 0
    every = [*flips(json.loads(plan.to_json()))]
    made = every[:: examples(1, 2)]
    files = [tmp_path / f"{number}.json" for number in range(len(made))]
    for file, flip in zip(files, made, strict=True):
        file.write_text(flip.text)
    result = check(*map(str, files), "--json")
    assert result.exit_code in {1, 3}, result.exception
    assert "Traceback" not in result.output
    found = json.loads(result.stdout)
    unseen = [(flip, file) for flip, file, one in zip(made, files, found, strict=True) if one["ok"]]
    assert [(flip.place, flip.what) for flip, _ in unseen if not flip.free] == []
    for _, file in unseen:
        assert check_plan(file).fresh.to_json() == read_plan(file).to_json()


@pytest.mark.parametrize(("asked", "place", "value", "note"), [
    (KINDS["optimal"], "strategy", "dp", "strategy 'dp': its space is batch; the plan has all"),
    (KINDS["optimal"], "strategy", "dp", "strategy 'dp': its search is greedy; the plan has joint"),
    (KINDS["optimal"], "strategy", "another", "no strategy 'another'; allowed: 3d, accpar, ddp, deepa, dp,"),
    (KINDS["optimal"], "solver", "exhaustive", "solver 'exhaustive': hypar would take 'elimination'"),
    (KINDS["greedy"], "solver", "exhaustive", "solver 'exhaustive': hypar would take 'elimination'"),
])  # fmt: skip
@pytest.mark.usefixtures("more_solvers")
def test_another_strategy_or_solver_is_said(asked: dict[str, Any], place: str, value: str, note: str) -> None:
    """The file is then that of a plan with other options: byte by byte, so that it holds."""
    plan = planned(**asked)
    written(plan)
    assert check("changed.json").stderr == ""
    written(plan, **{place: value})
    result = check("changed.json")
    assert (result.exit_code, result.stdout) == (0, "ok       changed.json\n")
    assert f"changed.json: {note}" in result.stderr
    assert any(one.startswith(note) for one in json.loads(check("changed.json", "--json").stdout)[0]["notes"])


def written(plan: Plan, **changes: Any) -> Path:
    """A plan's file with other values in some places, those that are None left out."""
    data = plan.to_data()
    for place, value in changes.items():
        *way, last = (int(key) if key.isdecimal() else key for key in place.split("."))
        inside: Any = data
        for key in way:
            inside = inside[key]
        inside[last] = value
        if value is None:
            del inside[last]
    Path("changed.json").write_text(json.dumps(data))
    return Path("changed.json")


@pytest.mark.parametrize("name", late(KINDS, "shares of layers"))
def test_an_updated_plan_is_a_fresh_one(name: str) -> None:
    plan = planned(**KINDS[name])
    file = written(plan, claim="the best of all")
    assert check(str(file), "--update").exit_code == 0
    assert file.read_text() == plan.to_json()
    assert (check(str(file)).exit_code, check(str(file)).stdout) == (0, f"ok       {file}\n")


def test_a_machine_whose_file_changed_is_seen(tmp_path: Path) -> None:
    machine = tmp_path / "own.yaml"
    machine.write_text(data_file("hardware", "hmc").read_text())
    plan_model("net.yaml", levels=1, hardware=machine).write(tmp_path / "plan.json")
    assert check(str(tmp_path / "plan.json")).exit_code == 0
    changed = machine.read_text().replace("capacity: {value: 8 GB", "capacity: {value: 9 GB")
    machine.write_text(changed)
    result = check(str(tmp_path / "plan.json"))
    assert result.exit_code == 1
    changes = check_plan(tmp_path / "plan.json").changes
    assert str(changes[0]).startswith("plan hardware: own sha256:")
    assert "plan capacity_bytes: 8,000,000,000 -> 9,000,000,000" in map(str, changes)
    assert re.search(r"\nhardware +own sha256:\w+ -> own sha256:\w+\n", result.stdout)
    assert re.search(r"\ncapacity_bytes +8.00 GB -> 9.00 GB +\+12%\n", result.stdout)


def test_a_digest_of_another_version_is_told() -> None:
    plan = planned(**KINDS["scored"])
    assert plan.score is not None
    assert plan.score.hardware_digest.endswith(".2")
    found = check_plan(written(plan, **{"score.hardware_digest": plan.score.hardware_digest[:-2]}))
    assert "score.hardware_digest: made with another version of hypar" in found.notes
    assert [change.what for change in found.changes] == ["hardware"]


def test_numbers_within_the_tolerance_are_no_drift_and_choices_always_are() -> None:
    plan = planned(**KINDS["scored"])
    near = {"cost.value": plan.cost.value * (1 + 1e-7), "score.time_s": known(plan.score).time_s * 1.004}
    file = str(written(plan, **near))
    assert check(file).exit_code == 1
    assert check(file, "--tolerance", "1e-6").exit_code == 1
    result = check(file, "--tolerance", "1%")
    assert (result.exit_code, result.stdout) == (0, "ok       changed.json, 2 numbers within the tolerance\n")
    (found,) = json.loads(check(file, "--tolerance", "1%", "--json").stdout)
    assert (found["changes"], [one["what"] for one in found["tolerated"]]) == ([], ["cost", "time_s"])
    for place, other in {
        "splits.0.choices": {layer: {"batch": 2} for layer in plan.layers},
        "claim": "the best of all",
    }.items():
        assert check(str(written(plan, **{place: other})), "--tolerance", "50%").exit_code == 1
    for text in ("x", "1%%", "-1e-6", "100%", "nan"):
        refused = check(file, f"--tolerance={text}")
        assert (refused.exit_code, refused.stdout) == (3, "")
        assert "tolerance: found" in refused.stderr
        assert refused.stderr.count("\n") == 1
