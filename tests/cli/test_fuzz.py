"""Whatever is read, nothing but a HyparError is raised."""

from __future__ import annotations

import json
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hypar import HyparError, diff_plans, from_onnx, load_machine, plan_model, read_plan, score_plan
from hypar.files.yaml_file import parse_yaml
from hypar.machine.changes import CHANGEABLE
from hypar.machine.load import parse_change
from hypar.network.graph import build_graph, load_model
from hypar.ops.dims import CUTTABLE
from hypar.plan.plan import Plan
from hypar.planning.pins import apply_pins, parse_pin
from hypar.registry import data_folder, plugin_names
from hypar.reports.renderers import FORMS
from hypar.sharding.dims import WORDS
from hypar.sharding.space import parse_space
from tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.network.graph import LayerGraph

fuzz = settings(max_examples=examples(2600, 10), deadline=None)
"""Some 20,000 examples of all tests together in the long run."""

MODEL: dict[str, Any] = {
    "source": "test",
    "batch": 4,
    "dtype": "float16",
    "blocks": {
        "unit": {
            "parameters": ["n", "k"],
            "layers": [
                {"name": "a", "op": "conv", "out_channels": "$n", "kernel": "$k", "padding": 1, "groups": 2},
                {"op": "batch_norm"},
                {"name": "sum", "op": "add", "inputs": ["input", "batch_norm1"]},
            ],
        }
    },
    "layers": [
        {"op": "input", "channels": 4, "height": 8, "width": 8},
        {"block": "unit", "name": "u", "with": {"n": 4, "k": [3, 3]}, "repeat": 2},
        {"name": "c", "op": "conv", "out_channels": 2, "kernel": 1, "inputs": "input"},
        {"op": "concat", "inputs": ["u", "c"]},
        {"op": "pool", "mode": "max", "kernel": 2, "stride": 2, "rounding": "up"},
        {"op": "pointwise", "function": "lrn"},
        {"op": "dropout", "probability": 0.5},
        {"op": "flatten"},
        {"name": "fc", "op": "linear", "out_features": 10, "bias": False},
    ],
}
PLAN: dict[str, Any] = json.loads(
    plan_model("lenet-c", levels=2, pins=["fc1=mp"], hardware="hmc", refine=True, chunks="best").to_json()
)
GRIDS: dict[str, Any] = json.loads(
    plan_model(
        "lenet-c",
        array=[4, 4],
        strategy="deepa",
        search="joint",
        hardware="p100-4x4",
        pins=["fc1@H1=n2 c2", "fc2=c1", "pool2@H2=rep", "conv1=n2 h2"],
    ).to_json()
)
STAGED: dict[str, Any] = json.loads(
    plan_model("lenet-c", stages=2, levels=1, hardware="hmc", pins=["fc1=mp"]).to_json()
)
LENET = load_model("lenet-c")
HMC = load_machine("hmc")
P100 = load_machine("p100-4x4")
MACHINE = (data_folder("hardware") / "h100-8x.yaml").read_text(encoding="utf-8")
GRAPH = load_model("resnet18").contracted
OPERATORS = load_model("resnet18").operators


def words_of(data: Any) -> set[str]:
    """Every key and text in plain data."""
    if isinstance(data, dict):
        return set(data).union(*map(words_of, data.values()))
    if isinstance(data, list):
        return set().union(*map(words_of, data))
    return {data} if isinstance(data, str) else set()


WORDS_OF_FILES = sorted(
    words_of(MODEL) | words_of(PLAN) | words_of(GRIDS) | {*plugin_names("ops"), *CUTTABLE}
)
words = st.sampled_from(WORDS_OF_FILES) | st.text(max_size=8)
numbers = st.sampled_from([-1, 0, 1, 2, 3, 8, 2**24, 2**24 + 1, 10**12, 10**400]) | st.floats()
scalars = st.none() | st.booleans() | numbers | words
plain = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=8
)  # fmt: skip
yaml_text = st.text() | st.text(alphabet="aé1.-:?,[]{}&*!|>'\"%@`#~ \t\n\r\\$<=\0\x07\x85\u2028", max_size=40)


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every list or mapping of plain data, with each of its indices or keys."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [place for key, inner in items for place in ((data, key), *places(inner))]


def like(value: Any) -> st.SearchStrategy[Any]:
    """Values of one kind, some of which a file may hold in the same place."""
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, list):
        return st.permutations(value)
    return words if isinstance(value, str) else st.integers(0, 9) | numbers


@st.composite
def mutations(draw: st.DrawFn, good: dict[str, Any]) -> dict[str, Any]:
    """Plain data with a few values replaced, deleted or doubled and a few keys renamed."""
    data = deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        found = places(data)
        if not found:
            break
        inside, key = draw(st.sampled_from(found))
        match draw(st.sampled_from(["vary", "vary", "vary", "replace", "delete", "double", "add", "swap"])):
            case "vary":
                inside[key] = draw(like(inside[key]))
            case "delete":
                del inside[key]
            case "double" if isinstance(inside, list):
                inside.insert(draw(st.integers(0, len(inside))), deepcopy(inside[key]))
            case "double":
                inside[draw(words)] = inside.pop(key)
            case "add" if isinstance(inside, dict):
                inside[draw(words)] = draw(plain)
            case "swap":
                inside[key] = deepcopy(draw(st.sampled_from([there[where] for there, where in found])))
            case _:
                inside[key] = draw(plain)
    return data


@st.composite
def edits(draw: st.DrawFn, good: str) -> str:
    """A text with a few slices deleted, doubled, moved or overwritten."""
    text = good
    for _ in range(draw(st.integers(1, 3))):
        start, end, to = (draw(st.integers(0, len(text))) for _ in range(3))
        part = text[start : min(end, start + 40)]
        rest = text[:start] + text[start + len(part) :]
        text = rest[:to] + draw(st.sampled_from([part, part * 2, "", *"[]{}&*!:-\t\n\"'$"])) + rest[to:]
    return text


def read_model(text: str) -> LayerGraph:
    return build_graph(parse_yaml(text, Path("fuzz.yaml")), "fuzz")


def read_and_plan(text: str) -> None:
    """What is a model after all can be planned; a space may not suit it."""
    with suppress(HyparError):
        graph = read_model(text)
        plan = plan_model(graph, levels=2, strategy="accpar")
        assert Plan.model_validate_json(plan.to_json()) == plan
        assert graph.flop() >= graph.macs() >= 0


HMC = load_machine("hmc", {"topology": "fully_connected", "devices": 12})


@fuzz
@given(yaml_text)
@example("a: &a [*a]")
@example("? [a]\n: b")
@example("!!int ''")
@example("!!timestamp x")
@example("2020-13-45")
@example("0x" + "f" * 9999)
@example("1" * 5000)
@example("\ud800")
@example("- " * 10_000)
def test_any_text_as_a_model(text: str) -> None:
    read_and_plan(text)


@fuzz
@given(mutations(MODEL), st.booleans())
def test_a_mutated_model(data: dict[str, Any], flow: bool) -> None:
    read_and_plan(yaml.safe_dump(data, sort_keys=False, default_flow_style=flow))


@fuzz
@given(edits(yaml.safe_dump(MODEL, sort_keys=False)))
def test_an_edited_model(text: str) -> None:
    read_and_plan(text)


def read_and_score(text: str, machine_file: Path) -> None:
    """What is a machine after all scores a plan, unless the array does not fit it."""
    machine_file.write_text(text, encoding="utf-8")
    with suppress(HyparError):
        machine = load_machine(machine_file)
        score = score_plan(Plan.model_validate_json(json.dumps(PLAN)), hardware=machine)
        assert score.time_s >= 0
        assert score.memory_bytes > 0


@pytest.fixture(scope="module")
def machine_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all examples."""
    return tmp_path_factory.mktemp("fuzz") / "machine.yaml"


@fuzz
@given(data=st.one_of(mutations(yaml.safe_load(MACHINE)), plain))
def test_a_mutated_machine(data: Any, machine_file: Path) -> None:
    read_and_score(yaml.safe_dump(data, sort_keys=False), machine_file)


@fuzz
@given(text=edits(MACHINE))
def test_an_edited_machine(text: str, machine_file: Path) -> None:
    read_and_score(text, machine_file)


@fuzz
@given(text=st.text(max_size=30), name=st.sampled_from(CHANGEABLE))
def test_any_text_as_a_change(text: str, name: str) -> None:
    with suppress(HyparError):
        load_machine("hmc", dict([parse_change(f"{name}={text}")]))


def onnx_files(folder: Path) -> Iterator[bytes]:
    """ONNX files that are read: images, and a product with shares, whose sizes and weights are in the file."""
    onnx: Any = pytest.importorskip("onnx", reason="onnx is an extra")
    from tests.importers.test_onnx_file import net, save  # noqa: PLC0415 (needs onnx)

    node, numbers = onnx.helper.make_node, onnx.numpy_helper.from_array
    nodes = [
        node("Constant", [], ["sizes"], value=numbers(np.array([-1, 4, 6]))),
        node("MatMul", ["x", "w"], ["a"], name="/in/MatMul"),
        node("Reshape", ["a", "sizes"], ["b"]),
        node("Split", ["b"], ["q", "k"], axis=1, num_outputs=2),
        node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["q", "t"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "k"], ["o"]),
        node("Concat", ["o", "q"], ["c"], axis=1),
        node("LayerNormalization", ["c", "g"], ["n"], axis=2),
        node("Flatten", ["n"], ["f"]),
        node("Gemm", ["f", "v"], ["y"], transB=1),
    ]
    kinds = {"w": (8, 24), "g": (6,), "v": (3, 24)}
    weights = [numbers(np.ones(sizes, np.float32), name) for name, sizes in kinds.items()]
    yield net(folder / "image.onnx").read_bytes()
    yield save(folder / "shares.onnx", nodes, weights, sizes=("N", 8), version=18).read_bytes()


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[bytes, ...]]:
    """One file for all examples, and the content of those that are changed."""
    folder = tmp_path_factory.mktemp("fuzz")
    contents = tuple(onnx_files(folder))
    for name in ("image", "shares"):
        assert load_model(folder / f"{name}.onnx").num_weighted > 0
    return folder / "changed.onnx", contents


@fuzz
@given(data=st.data())
def test_changed_bytes_of_an_onnx_file(
    data: st.DataObject, onnx_file: tuple[Path, tuple[bytes, ...]]
) -> None:
    """What is a network after all has a plan."""
    file, contents = onnx_file
    content = bytearray(data.draw(st.sampled_from(contents)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 1))] = data.draw(st.binary(max_size=1))
    file.write_bytes(content)
    with suppress(HyparError):
        plan_model(from_onnx(file, partial=True), levels=1)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all examples."""
    return tmp_path_factory.mktemp("fuzz") / "plan.json"


def read_and_write_plan(file: Path) -> None:
    """What is a plan after all is written, read back as it is, shown and compared."""
    with suppress(HyparError):
        plan = read_plan(file)
        plan.write(file)
        assert read_plan(file) == plan
        for form in FORMS:
            assert plan.render(form)
        assert not diff_plans(plan, plan)
        diff_plans(Plan.model_validate_json(json.dumps(PLAN)), plan)


@fuzz
@given(data=st.one_of(mutations(PLAN), plain))
def test_a_mutated_plan(data: Any, file: Path) -> None:
    file.write_text(json.dumps(data))
    read_and_write_plan(file)


@fuzz
@given(data=mutations(STAGED))
def test_a_mutated_plan_of_stages(data: Any, file: Path) -> None:
    """What is a plan of the network after all has a score."""
    file.write_text(json.dumps(data))
    read_and_write_plan(file)
    with suppress(HyparError):
        assert score_plan(read_plan(file), hardware=HMC, model=LENET).time_s > 0


degrees = st.dictionaries(st.sampled_from(CUTTABLE), st.sampled_from([1, 2, 4, 8, 3]), max_size=3)
grids_of_convs = st.sampled_from(
    [dict(choice.degrees) for choice in parse_space("all").choices(LENET.contracted.layers[1], 4, idle=True)]
)
changes = st.tuples(st.sampled_from([0, 1]), st.sampled_from(["conv1", "conv2"]), grids_of_convs)
other_changes = st.tuples(
    st.sampled_from([0, 1]), st.sampled_from([*GRIDS["splits"][0]["choices"], "conv9"]), degrees
)


@fuzz
@given(
    changed=st.lists(changes, min_size=1, max_size=3) | st.lists(changes | other_changes, max_size=3),
    graph=st.sampled_from([*["operators"] * 7, None]),
    mode=st.sampled_from(["exact", "exact", "serial", "none"]),
)
def test_any_degrees_in_a_plan(
    changed: list[tuple[int, str, dict[str, int]]], graph: str | None, mode: str, file: Path
) -> None:
    """What is a plan of the network after all has a score."""
    data = deepcopy(GRIDS) | {"graph": graph}
    data["cost"]["parameters"]["mode"] = mode
    for level, layer, own in changed:
        data["splits"][level]["choices"][layer] = own
    file.write_text(json.dumps(data))
    read_and_write_plan(file)
    with suppress(HyparError):
        plan = read_plan(file)
        assert all(1 <= plan.devices(layer) <= plan.num_devices for layer in plan.layers)
        score = score_plan(plan, hardware=P100, model=LENET)
        assert 0 < score.time_s < 1
        assert score.communication_bytes >= 0


@fuzz
@given(
    text=st.one_of(
        edits(json.dumps(PLAN, indent=1)),
        edits(json.dumps(GRIDS, indent=1)),
        edits(json.dumps(STAGED, indent=1)),
        st.text(alphabet=st.characters(codec="utf-8")),
    )
)
def test_an_edited_plan(text: str, file: Path) -> None:
    file.write_text(text, encoding="utf-8")
    read_and_write_plan(file)


dims = st.sampled_from([*CUTTABLE, *(word for named in WORDS.values() for word in named), "all"])
marks = st.sampled_from([*plugin_names("ops"), ",", "*", "*", ":", " ", " divisors "])
parts_of_spaces = dims | marks | st.text(max_size=3)


@fuzz
@given(st.lists(parts_of_spaces, max_size=8).map("".join))
def test_any_text_as_a_space(text: str) -> None:
    with suppress(HyparError):
        space = parse_space(text)
        assert parse_space(space.text) == space
        for layer in GRAPH.layers:
            assert space.choices(layer, 2)
        for layer in LENET.operators.layers:
            for ways, idle in ((4, True), (6, False)):
                found = space.choices(layer, ways, idle=idle)
                assert found
                assert len({*found}) == len(found)
                assert all(1 <= choice.devices(ways) <= ways for choice in found)
                space.left_out(layer, ways)


parts_of_pins = dims | st.sampled_from(
    ["fc", "conv1", "conv*", "[c]*", "*", "@", "H1", "=", "0", "4", "²", "٣", " "]
)
degrees_of_pins = st.lists(st.tuples(dims, st.integers(0, 20) | st.just(10**5000)), max_size=4).map(
    lambda pairs: " ".join(f"{dim}{degree}" if degree < 10**9 else dim + "9" * 5000 for dim, degree in pairs)
)
names = st.sampled_from(["fc", "conv1", "conv*", "*", "maxpool", "layer1.0.add", "fc@H2", "*@0"])


@fuzz
@given(
    st.lists(parts_of_pins | st.text(max_size=3), max_size=6).map("".join)
    | st.tuples(names, degrees_of_pins).map("=".join)
)
def test_any_text_as_a_pin(text: str) -> None:
    with suppress(HyparError):
        pin = parse_pin(text, OPERATORS, 3)
        assert parse_pin(str(pin), OPERATORS, 3) == pin
        free = [((),) * 3] * len(OPERATORS.layers)
        for at_layer in apply_pins([pin], OPERATORS, free, (2, 6, 16)):
            for ways, options in zip((2, 6, 16), at_layer, strict=True):
                assert all(1 <= choice.devices(ways) <= ways for choice in options)
