"""What holds for whatever hypar plans: each invariant for drawn requests and for networks that were built by hand.

An invariant is a row of ``INVARIANTS``: what it holds, on which machines, for requests narrowed to what it speaks of. It
returns how many facts it compared, and none may compare nothing. What found a fault once stays as a row of ``FOUND``.
"""

import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import hypar
from hypar import (
    HyparError,
    LayerGraph,
    Plan,
    check_plan,
    diff_plans,
    plan_model,
    read_plan,
    score_plan,
    verify_plan,
)
from hypar.cli.main import main
from hypar.errors import OptionError
from hypar.planning.planner import plan_command
from tests.effort import crossed, examples
from tests.generate import (
    Data,
    Network,
    Request,
    drawn,
    identical,
    images,
    network,
    no_machine,
    perceptron,
    requests,
    shares_of,
    shipped,
    transformer,
    unlike,
)
from tests.held import held_by
from tests.kit import known

NEAR = 1e-9
"""What sums in another order may differ by, relatively."""

DIMS = ("batch", "in_channels", "out_channels")
MADE = Path(__file__).parent / "networks.yaml"
NETWORKS: dict[str, Data] = yaml.safe_load(MADE.read_text(encoding="utf-8"))
FOUND: dict[str, Data] = yaml.safe_load(MADE.with_name("found.yaml").read_text(encoding="utf-8"))


class Case:
    def __init__(self, asked: Request, folder: Path) -> None:
        self.asked, self.folder = asked, folder
        self.network = asked.network(folder)
        self.keywords = asked.keywords(folder)
        self.machine = self.keywords.get("hardware")

    @cached_property
    def plan(self) -> Plan:
        return plan_model(self.network, **self.keywords)

    @cached_property
    def graph(self) -> LayerGraph:
        return hypar.load_model(self.network).with_batch(self.plan.model.batch)

    @cached_property
    def file(self) -> Path:
        file = self.folder / "plan.json"
        self.plan.write(file)
        return file

    @cached_property
    def data(self) -> Data:
        found: Data = json.loads(self.file.read_text(encoding="utf-8"))
        return found

    def planned(self, **changes: Any) -> Plan:
        keywords = {name: value for name, value in (self.keywords | changes).items() if value is not None}
        return plan_model(self.network, **keywords)


# The invariants


def found_again(case: Case) -> int:
    """A plan file is read back as it is, and planning again finds the same plan and the same score."""
    again = read_plan(case.file)
    assert again == case.plan
    assert again.to_json() == case.file.read_text(encoding="utf-8")
    assert not diff_plans(case.plan, again)
    verdict = check_plan(case.file, model=case.network, hardware=case.machine)
    assert verdict.ok, verdict.changes
    if case.machine is None:
        return 4
    assert score_plan(again, model=case.network, hardware=case.machine) == case.plan.score
    return 5


def runs_as_planned(case: Case) -> int:
    """A step on simulated devices has the numbers of one device, and moves the bytes that are counted, level by level."""
    if case.asked.options.get("schedule") == "layer-block":
        with pytest.raises(HyparError, match="weights are stale"):
            verify_plan(case.plan, model=case.network, hardware=case.machine)
        return 1
    found = verify_plan(case.plan, model=case.network, hardware=case.machine)
    assert known(found.numbers).error_below is not None
    assert not found.mismatches
    assert [level.moved for level in found.levels] == [level.counted for level in found.levels]
    return 3 + len(found.levels)


def bytes_are_the_runs(case: Case) -> int:
    """Of layers without biases, cut evenly, each level moves what the plan's cost counts, to the byte."""
    found = verify_plan(case.plan, model=case.network, hardware=case.machine, count=True)
    assert [level.planned for level in found.levels] == pytest.approx(
        [level.counted for level in found.levels]
    )
    if case.asked.options.get("cost") in {None, "volume"}:
        assert sum(level.planned for level in found.levels) == pytest.approx(case.data["cost"]["value"])
    return len(found.levels) + 1


def borders_are_the_runs(case: Case) -> int:
    """Of images that are cut in rows and columns, too, a run reads what its windows need, and moves what is counted."""
    return bytes_are_the_runs(case) + runs_as_planned(case)


def memory_is_the_runs(case: Case) -> int:
    """A device holds what the score says: at most a tenth more, at least a third of it."""
    held = held_by(case.plan, case.graph)
    for memory in held:
        assert memory.held <= 1.1 * memory.said, memory
        assert memory.said <= 3 * memory.held, memory
    return len(held)


def memory_is_the_runs_to_the_byte(case: Case) -> int:
    """Of layers that are cut evenly, and of transformers, each device holds what the score says."""
    held = held_by(case.plan, case.graph)
    assert [memory.held for memory in held] == pytest.approx([memory.said for memory in held])
    return len(held)


def items_sum(case: Case) -> int:
    """Costs of layers sum to those of splits, and these to the plan's; items of a score sum to its totals."""
    facts = 0
    for split in case.data["splits"]:
        assert math.fsum(split["costs"].values()) == pytest.approx(split["cost"], rel=NEAR)
        facts += 1
    path = case.data.get("path")
    summed = [split["cost"] for split in case.data["splits"] if path is None or split["group"] in path]
    if summed and not _outside(case.asked):
        assert math.fsum(summed) == pytest.approx(case.data["cost"]["value"], rel=NEAR)
        facts += 1
    stages = case.data.get("stages") or {}
    if stages.get("balance") == "memory" and "chunks" not in case.asked.options and "parts" not in stages:
        assert stages["bottleneck"] == pytest.approx(case.data["score"]["memory_bytes"], rel=NEAR)
    return facts + (_score_sums(case.data["score"]) if case.machine is not None else 0)


def _outside(asked: Request) -> bool:
    return any(isinstance(ways, str) for ways in asked.options.get("array", ()))


OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2}
"""Numbers that an optimizer keeps for each weight."""


def _score_sums(score: Data) -> int:
    sums = {name: math.fsum(score[name].values()) for name in ("critical", "communication", "memory", "time")}
    assert sums["critical"] == pytest.approx(score["time_s"], rel=NEAR, abs=1e-15)
    assert sums["communication"] == pytest.approx(score["communication_bytes"], rel=NEAR, abs=1e-15)
    assert sums["memory"] == pytest.approx(score["memory_bytes"], rel=NEAR, abs=1e-15)
    weights = score["memory"]["weights"]
    assert score["memory"]["gradients"] == weights
    assert score["memory"]["optimizer"] == OPTIMIZERS[score["optimizer"]] * weights
    if score["energy"] is not None:
        assert math.fsum(score["energy"].values()) == pytest.approx(score["energy_j"], rel=NEAR, abs=1e-15)
    groups = score.get("groups") or []
    for group in groups:
        busy = group["computing_s"] + group["communicating_s"]
        assert group["computing_s"] <= (score["time_s"] - group["idle_s"]) * (1 + NEAR)
        assert busy + group["idle_s"] >= score["time_s"] * (1 - NEAR)
        assert group["fits"] is (
            group["capacity_bytes"] is None or group["memory_bytes"] <= group["capacity_bytes"]
        )
    if groups:
        assert max(group["memory_bytes"] for group in groups) == score["memory_bytes"]
    else:
        assert sums["time"] - score["overlapped_s"] == pytest.approx(score["time_s"], rel=1e-8)
    return 7 + 3 * len(groups)


def no_choice_is_better(case: Case) -> int:
    """No other choice of one layer at one level has a lower cost: of that level, or jointly of all."""
    claim, splits = case.data["claim"], case.data["splits"]
    assert claim.startswith(("optimal", "greedy: each level is optimal", "fixed")), claim
    jointly = case.asked.options["search"] == "joint"
    facts = 0
    sizes = _sizes(case)
    for level, layer, dim in _changes(splits):
        if sizes[layer].get(dim) == 1:  # no choice of a search
            continue
        pins = _pins(splits, {(level, layer): dim})
        try:
            other = json.loads(case.planned(pins=pins).to_json())["splits"]
        except OptionError as error:  # the layer has no such dim
            assert error.found.endswith("has no such choice"), error  # noqa: PT017
            continue
        counted = [(own["cost"], its["cost"]) for own, its in zip(splits, other, strict=True)]
        own, its = map(math.fsum, zip(*counted, strict=True)) if jointly else counted[level]
        assert own <= its * (1 + NEAR), (level, layer, dim)
        facts += 1
    return facts


def _sizes(case: Case) -> dict[str, Mapping[str, int]]:
    return {layer.name: layer.nest.sizes for layer in case.graph.nodes(case.plan.graph).layers}


def _changes(splits: list[Data], most: int = 12) -> Iterator[tuple[int, str, str]]:
    """Yield changes of one choice, at most about so many, spread over levels and layers."""
    every = [
        (level, layer, dim)
        for level, split in enumerate(splits)
        for layer, own in split["choices"].items()
        for dim in DIMS
        if own and {dim} != {*own}
    ]
    yield from every[:: max(1, len(every) // most)]


def _pins(splits: list[Data], changed: dict[tuple[int, str], str]) -> list[str]:
    return [
        f"{layer}@H{level + 1}={changed.get((level, layer)) or _word(own)}"
        for level, split in enumerate(splits)
        for layer, own in split["choices"].items()
    ]


def _word(own: dict[str, int]) -> str:
    return "*".join(own) or "rep"


def wider_is_no_dearer(case: Case) -> int:
    """With fewer choices, or with a pin, no plan of a search that is exact costs less."""
    assert case.data["claim"].startswith(("optimal", "greedy", "fixed")), case.data["claim"]
    narrower: list[Data] = [{"space": "batch"}, {"space": "batch,in_channels"}, {"pins": ("*@H1=batch",)}]
    for less in narrower:
        assert case.plan.cost.value <= case.planned(**less).cost.value * (1 + NEAR), less
    return len(narrower)


def same_answer(case: Case) -> int:
    """A question that is asked in other words has the same answer, to the byte."""
    asked, own = case.asked, case.plan.to_json()
    command = CliRunner().invoke(main, ["plan", *asked.command(case.folder), "--json"])
    assert command.exit_code == 0, command.output
    assert _but_files(command.stdout) == _but_files(own)
    model = hypar.load_model(asked.model, name="net")
    assert plan_model(model, **{**case.keywords, "batch": model.batch}).to_json() == own
    if "levels" in asked.options and not asked.files.get("mixed") and asked.options["levels"]:
        array = (2,) * asked.options["levels"]
        assert case.planned(levels=None, array=array).to_json() == own
    return 2


def _but_files(text: str) -> Data:
    return {name: value for name, value in json.loads(text).items() if name != "files"}


def planned_by_its_command(case: Case) -> int:
    """The command that a report names leads to the plan again."""
    network = hypar.load_model(case.network)
    machine = None if case.machine is None else hypar.load_machine(case.machine)
    _, *words = shlex.split(plan_command(case.plan, "again.json", network, machine))
    with chdir(case.folder):
        shown = CliRunner().invoke(main, words)
        assert shown.exit_code == 0, shown.output
        assert read_plan("again.json") == case.plan
    return 1


def rows_are_plans(case: Case) -> int:
    """A row of a comparison and a run of a sweep are the plan of the same request."""
    keywords = dict(case.keywords)
    strategy = keywords.pop("strategy")
    rows = hypar.compare_strategies(case.network, strategies=[strategy], **keywords)
    assert [row.name for row in rows] == ["dp", strategy]
    assert rows[1].plan == case.plan
    assert rows[1].cost == pytest.approx(case.plan.cost.value, rel=NEAR) or case.data.get("path")
    if case.machine is None or not {"levels", "array"} & {*keywords}:
        return 2
    (run,) = hypar.sweep_model(case.network, strategy=strategy, **keywords)
    score = case.plan.score
    assert score is not None
    assert run.totals == score
    return 3


def reports_name_it(case: Case) -> int:
    """The table, the page and the Markdown name each layer with its choices at each level, and levels by their number."""
    texts = {name: case.plan.render(name) for name in ("table", "markdown", "html")}
    layers = case.plan.layers
    for name, text in texts.items():
        assert case.plan.strategy in text, name
    for layer in layers:
        assert "." in layer or layer in texts["html"]
    shown = CliRunner().invoke(main, ["show", str(case.file), "--full", "--format", "markdown"])
    assert shown.exit_code == 0, shown.output
    table = re.search(r"^\|.*?^\| all layers .*?$", shown.stdout, re.MULTILINE | re.DOTALL)
    assert table
    head, _, *rows, _ = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()
    ]
    assert [row[0] for row in rows] == [*layers]
    assert len({len(row) for row in rows} | {len(head)}) == 1
    return len(layers) + _words_are_choices(case, head, rows)


def _words_are_choices(case: Case, head: list[str], rows: list[list[str]]) -> int:
    """Each column of levels, alone or in a range, has one word for each choice there, by the ways of the level."""
    found: dict[tuple[str, str, int], str] = {}
    for place, name in enumerate(head):
        named = re.fullmatch(r"(?:(.+) )?H(\d+)(?:-H(\d+))?", name)
        levels = range(int(named[2]) - 1, int(named[3] or named[2])) if named else range(0)
        group = (named[1] if named else None) or "all"
        for split in (own for own in case.data["splits"] if own["level"] in levels and own["group"] == group):
            for row in rows:
                if row[0] in split["choices"] and [*split["choices"][row[0]].values()] == [split["ways"]]:
                    (dim,) = split["choices"][row[0]]
                    known = found.setdefault((row[0], dim, split["ways"]), row[place])
                    assert row[place] == known, (row, dim)
    return len(found)


# What each speaks of


def as_drawn(asked: Request) -> Request:
    """Leave out the pairs of options that ``KNOWN`` has."""
    left = {"chunks"} if "tied weights" in asked.features and _outside(asked) else set()
    left |= {"refine"} if "nested groups" in asked.features else set()
    return asked._replace(options={name: asked.options[name] for name in asked.options if name not in left})


def told(asked: Request) -> Request:
    """Leave out the best stages of unlike devices, whose array a command does not say."""
    found = as_drawn(asked)
    both = found.options.get("stages") == "best" and "mixed" in asked.files
    return _with(found, tuple(name for name in found.options if name != "stages")) if both else found


def _with(asked: Request, kept: tuple[str, ...], **options: Any) -> Request:
    """Leave some options, and set others."""
    left = {name: value for name, value in asked.options.items() if name in kept}
    return asked._replace(options=left | options)


def _levels(asked: Request) -> Data:
    array = asked.options.get("array", ())
    if array and not _outside(asked):
        return {"array": array}
    return {"levels": min(asked.options.get("levels") or 1, 2)}


def searched(asked: Request) -> Request:
    """Two-way levels of one dim each, without what decides otherwise than the search."""
    cost = asked.options.get("cost")
    levels = min(asked.options.get("levels") or 1, 2)
    kept = () if cost == "deepa" else ("convention", *(("inter_weight",) if cost in {None, "volume"} else ()))
    cost = {"time": "accpar"}.get(str(cost), cost)
    search = "joint" if len(repr(asked)) % 2 else "greedy"
    narrowed = _with(asked, kept, levels=levels, space=",".join(DIMS), search=search)
    return narrowed._replace(options=narrowed.options | ({"cost": cost} if cost else {}))


def exact(asked: Request) -> Request:
    """As ``searched``, jointly over all levels or over one."""
    found = searched(asked)
    return found if found.options["search"] == "joint" else _with(found, tuple(found.options), levels=1)


def counted(asked: Request) -> Request:
    """Layers without biases and norms, of sizes that all levels divide, cut in one dim by what a run moves."""
    options = _levels(asked) | {"strategy": "optimal", "search": "greedy", "space": ",".join(DIMS)}
    options["convention"] = "fused" if asked.options.get("convention") == "fused" else "moved"
    return asked._replace(options=options, model=bare(asked.model))


WEIGHTED = {"conv", "linear", "embedding", "patch", "conv_transpose", "conv3d", "sequence_conv"}


def bordered(asked: Request) -> Request:
    """As ``counted``, of convolutions alone that are cut in their rows or columns."""
    found = counted(asked)
    layers = [own for own in without_pools(found.model["layers"]) if own["op"] not in {"flatten", "linear"}]
    space = ("height", "width", "height,width,batch")[len(layers) % 3]
    return found._replace(model=found.model | {"layers": layers}, options=found.options | {"space": space})


def without_pools(layers: list[Data]) -> list[Data]:
    return [_relu(own) if own["op"] == "pool" else own for own in layers]


SIZES = {"channels": 24, "out_channels": 24, "out_features": 24, "height": 8, "width": 8}


def bare(model: Data) -> Data:
    layers, joins = [], {layer["op"] for layer in model["layers"]} & {"add", "concat"}
    for layer in model["layers"]:
        own = {name: SIZES.get(name, value) for name, value in layer.items() if name != "groups"}
        if own["op"] in {"conv", "linear"}:
            own["bias"] = False
        if len(joins) > 1 and own["op"] in joins:  # a sum behind a concatenation has its channels
            own["op"] = "add"
        if own["op"] == "conv":
            own |= {"kernel": 3, "padding": 1, "stride": 1}
        if own["op"] in {"batch_norm", "pointwise", "dropout"}:
            own = {name: value for name, value in own.items() if name in {"name", "inputs"}} | {"op": "relu"}
        layers.append(own)
    return model | {"layers": layers, "batch": 24}


def images_and_linear(pick: Any) -> Network:
    found: Network = pick((perceptron, images))(pick)
    return found


def held_whole(asked: Request) -> Request:
    """One dim a level, stages outside all levels: the rest is held otherwise than is said."""
    if _outside(asked) or asked.options.get("schedule") == "layer-block":
        tree = {} if "mixed" in asked.files else {"levels": 1}
        asked = _with(asked, ("strategy", "cost", "convention", "optimizer"), **tree)
    left = {name: value for name, value in asked.options.items() if name not in {"graph", "space", "shares"}}
    left = {name: value for name, value in left.items() if "deepa" not in str(value)}
    return asked._replace(options=left | {"space": ",".join(DIMS)}, model=windowed(asked.model))


def windowed(model: Data) -> Data:
    """Return a drawn network without groups, normalisation by neighbours and strides that skip elements.

    A run holds what windows read, and a score the whole tensor.
    """
    if model["source"] != "drawn":
        return model
    layers = []
    for layer in model["layers"]:
        skips = layer.get("stride", 1) > layer.get("kernel", 1)
        own = {name: layer[name] for name in layer if name not in {"groups", *(["stride"] * skips)}}
        layers.append(_relu(own) if own.get("op") == "pointwise" else own)
    return model | {"layers": layers}


def _relu(layer: Data) -> Data:
    return {"name": layer["name"], "op": "relu", "inputs": layer["inputs"]}


def evenly_held(asked: Request) -> Request:
    """As ``counted``, without pools."""
    found = counted(asked)
    return found._replace(model=found.model | {"layers": without_pools(found.model["layers"])})


EVEN = {"sequence": 8, "hidden": 16, "kv_heads": 4, "ff": 16, "vocab": 24}


def evenly_attended(asked: Request) -> Request:
    """A transformer of sizes that all levels divide, each head with keys of its own, cut in one dim by what a run moves."""
    dims = {name: 1 if name == "group" else size for name, size in asked.model["dims"].items()}
    model = asked.model | {"batch": 24, "dims": dims | EVEN}
    options = _levels(asked) | {"strategy": "optimal", "search": "greedy", "space": ",".join(DIMS)}
    return asked._replace(model=model, options=options | {"convention": "moved"})


def compared(asked: Request) -> Request:
    """A request of a strategy that is named after no paper, as a comparison counts it."""
    left = {"shares", "inter_weight", *(["refine"] if "mixed" in asked.files else [])}
    kept = {name: value for name, value in asked.options.items() if name not in left}
    kept = {name: value for name, value in kept.items() if value != "deepa"}
    own = kept.get("strategy") if kept.get("strategy") in {"mp", "owt", "optimal"} else "owt"
    return asked._replace(options=kept | {"strategy": own, "convention": "moved"})


class Invariant(NamedTuple):
    """A row: what holds, the machines of the requests, and what of a request it speaks of."""

    holds: Callable[[Case], int]
    machines: tuple[Any, ...] = (no_machine, identical, shipped, unlike)
    speaks_of: Callable[[Request], Request] = as_drawn
    networks: Callable[[Any], Network] = network


INVARIANTS = {
    "runs as planned": Invariant(runs_as_planned, (no_machine, identical, unlike)),
    "bytes are the run's": Invariant(bytes_are_the_runs, (no_machine, identical), counted, images_and_linear),
    "borders are the run's": Invariant(borders_are_the_runs, (no_machine, identical), bordered, images),
    "memory to the byte": Invariant(
        memory_is_the_runs_to_the_byte, (identical,), evenly_held, images_and_linear
    ),
    "memory of transformers": Invariant(
        memory_is_the_runs_to_the_byte, (identical,), evenly_attended, transformer
    ),
    "no choice is better": Invariant(no_choice_is_better, (no_machine, identical), searched),
    "wider is no dearer": Invariant(wider_is_no_dearer, (no_machine, identical), exact),
    "memory is the run's": Invariant(memory_is_the_runs, (identical, unlike), held_whole),
    "items sum": Invariant(items_sum),
    "found again": Invariant(found_again),
    "same answer": Invariant(same_answer),
    "planned by its command": Invariant(planned_by_its_command, speaks_of=told),
    "rows are plans": Invariant(rows_are_plans, speaks_of=compared),
    "reports name it": Invariant(reports_name_it),
}
"""Those that hold plans against a run first: they find most faults."""


HOLDS = {row.holds.__name__: row.holds for row in INVARIANTS.values()}
YET = pytest.mark.xfail(strict=True, raises=(AssertionError, KeyError), reason="not the run's yet")


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Request], Case]:
    """Answers of all requests so far; several invariants ask for the same."""
    known: dict[str, Case] = {}

    def case(asked: Request) -> Case:
        key = repr(asked)
        if key not in known:
            known[key] = Case(asked, tmp_path_factory.mktemp("case"))
        return known[key]

    return case


def hold(invariant: Invariant, case: Case) -> None:
    """Hold an invariant of a request; one that compares nothing does not pass."""
    assert invariant.holds(case) > 0, "nothing was compared"


@pytest.mark.parametrize("name", INVARIANTS)
@settings(max_examples=examples(300, 8))
@given(data=st.data())
def test_of_drawn_requests(name: str, data: st.DataObject, cases: Callable[[Request], Case]) -> None:
    row = INVARIANTS[name]
    asked = data.draw(requests(row.machines, row.networks))
    hold(row, cases(row.speaks_of(asked)))


def by_hand(name: str) -> Network:
    model = {"source": "made up", **NETWORKS[name]}
    layers = [layer for layer in model["layers"] if layer.get("op") in WEIGHTED and "name" in layer]
    names = [layer["name"] for layer in layers]
    return Network(model, names, len(names), {name})


@crossed(
    {"invariant": [name for name, row in INVARIANTS.items() if row.networks is network], "made": NETWORKS}
)
def test_of_networks_built_by_hand(
    invariant: str, made: str, cases: Callable[[Request], Case], request: pytest.FixtureRequest
) -> None:
    row = INVARIANTS[invariant]
    # The error of a norm before all layers is moved by no edge of a plan.
    if invariant == "memory is the run's" and made == "a norm first":
        request.applymarker(YET)
    asked = drawn(f"{made} 0", row.machines, lambda _: by_hand(made))
    hold(row, cases(row.speaks_of(asked)))


@pytest.mark.parametrize("name", FOUND)
def test_of_requests_that_found_something(name: str, cases: Callable[[Request], Case]) -> None:
    """Each on a machine of the simplest devices."""
    row = FOUND[name]
    model = {"source": "made up", "batch": 24, "layers": row["layers"]}
    model |= {"dims": row["dims"]} if "dims" in row else {}
    devices = row.get("devices", 8)
    machine = identical(lambda values: devices if devices in values else values[0])
    asked = Request(model, machine.name, machine.files, row["options"], frozenset())
    assert HOLDS[row["holds"]](cases(asked)) > 0


def test_what_compares_nothing_does_not_pass(cases: Callable[[Request], Case]) -> None:
    with pytest.raises(AssertionError, match="nothing was compared"):
        hold(Invariant(lambda _: 0), cases(drawn(0)))


def test_features_and_pairs_of_them_are_drawn() -> None:
    """Every feature in one of a hundred requests, and nine of ten pairs of features in one of some thousand."""
    alone, pairs = shares_of([drawn(seed).features for seed in range(2000)])
    assert min(alone.values()) >= 10, alone.most_common()[-3:]
    assert len(alone) >= 60
    possible = len(alone) * (len(alone) - 1) // 2
    assert len(pairs) >= 0.85 * possible


HASHED = """
import sys
from pathlib import Path
from tests.test_invariants import planned_texts
sys.stdout.write("".join(planned_texts(int(sys.argv[1]), Path(sys.argv[2]))))
"""


def planned_texts(count: int, folder: Path) -> Iterator[str]:
    for seed in range(count):
        (folder / str(seed)).mkdir(parents=True)
        yield Case(drawn(seed), folder / str(seed)).plan.to_json().replace(str(folder), "")


def test_a_plan_is_the_same_bytes_whatever_the_order_of_hashes(tmp_path: Path) -> None:
    count = examples(60, 5)
    own = "".join(planned_texts(count, tmp_path / "own"))
    command = [sys.executable, "-c", HASHED, str(count), str(tmp_path / "other")]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == own
