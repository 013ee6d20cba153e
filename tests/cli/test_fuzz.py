"""Whatever is read, nothing but a HyparError is raised."""

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hypar import HyparError, diff_plans, from_onnx, load_machine, plan_model, read_plan, score_plan
from hypar.files.yaml_file import parse_yaml
from hypar.machine.load import parse_change
from hypar.machine.profiles import read_step_times
from hypar.machine.schema import CHANGEABLE
from hypar.network.graph import build_graph, load_model
from hypar.ops.dims import CUTTABLE
from hypar.plan.plan import Plan
from hypar.planning.pins import apply_pins, parse_pin
from hypar.registry import data_folder, plugin_names
from hypar.reports.renderers import FORMS
from hypar.sharding.dims import WORDS
from hypar.sharding.space import parse_space
from tests.effort import examples

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
HMC = load_machine("hmc", {"topology": "fully_connected", "devices": 12})
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
    text = good
    for _ in range(draw(st.integers(1, 3))):
        start, end, to = (draw(st.integers(0, len(text))) for _ in range(3))
        part = text[start : min(end, start + 40)]
        rest = text[:start] + text[start + len(part) :]
        text = rest[:to] + draw(st.sampled_from([part, part * 2, "", *"[]{}&*!:-\t\n\"'$"])) + rest[to:]
    return text


def read_and_plan(text: str) -> None:
    """What is a model after all can be planned; a space may not suit it."""
    graph = build_graph(parse_yaml(text, Path("fuzz.yaml")), "fuzz")
    plan = plan_model(graph, levels=2, strategy="accpar")
    assert Plan.model_validate_json(plan.to_json()) == plan
    assert graph.flop() >= graph.macs() >= 0


Draw = Callable[..., Any]


def read_and_score(text: str, folder: Path) -> None:
    """What is a machine after all scores a plan, unless the array does not fit it."""
    (folder / "machine.yaml").write_text(text, encoding="utf-8")
    machine = load_machine(folder / "machine.yaml")
    score = score_plan(Plan.model_validate_json(json.dumps(PLAN)), hardware=machine)
    assert score.time_s >= 0
    assert score.memory_bytes > 0


@cache
def onnx_content() -> bytes:
    """An ONNX file that is read."""
    pytest.importorskip("onnx", reason="onnx is an extra")
    from tests.importers.test_onnx_file import net  # noqa: PLC0415 (needs onnx)

    with tempfile.TemporaryDirectory() as folder:
        file = net(Path(folder) / "image.onnx")
        assert load_model(file).num_weighted > 0
        return file.read_bytes()


def read_onnx(draw: Draw, folder: Path) -> None:
    """What is a network after some bytes are changed has a plan."""
    content = bytearray(onnx_content())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(content) - 1))
        content[at : at + draw(st.integers(0, 1))] = draw(st.binary(max_size=1))
    (folder / "changed.onnx").write_bytes(content)
    plan_model(from_onnx(folder / "changed.onnx", partial=True), levels=1)


def read_and_write_plan(text: str, folder: Path) -> Plan:
    file = folder / "plan.json"
    file.write_text(text, encoding="utf-8")
    plan = read_plan(file)
    plan.write(file)
    assert read_plan(file) == plan
    for form in FORMS:
        assert plan.render(form)
    assert not diff_plans(plan, plan)
    with suppress(HyparError):
        diff_plans(Plan.model_validate_json(json.dumps(PLAN)), plan)
    return plan


def read_plan_of_stages(draw: Draw, folder: Path) -> None:
    """What is a plan of the network after all has a score."""
    plan = read_and_write_plan(json.dumps(draw(mutations(STAGED))), folder)
    assert score_plan(plan, hardware=HMC, model=LENET).time_s > 0


dims = st.sampled_from([*CUTTABLE, *(word for named in WORDS.values() for word in named), "all"])
marks = st.sampled_from([*plugin_names("ops"), ",", "*", "*", ":", " ", " divisors "])
spaces = st.lists(dims | marks | st.text(max_size=3), max_size=8).map("".join)


def read_space(text: str) -> None:
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
pins = st.lists(parts_of_pins | st.text(max_size=3), max_size=6).map("".join)
pins |= st.tuples(names, degrees_of_pins).map("=".join)


def read_pin(text: str) -> None:
    pin = parse_pin(text, OPERATORS, 3)
    assert parse_pin(str(pin), OPERATORS, 3) == pin
    free = [((),) * 3] * len(OPERATORS.layers)
    for at_layer in apply_pins([pin], OPERATORS, free, (2, 6, 16)):
        for ways, options in zip((2, 6, 16), at_layer, strict=True):
            assert all(1 <= choice.devices(ways) <= ways for choice in options)


TIMES = """synchronisation: 1 ms
layers:
  - {name: a, backward: 4 ms, copy_out: 1 us, accumulate: 2 us, copy_back: 3 us}
  - {name: b, backward: 4 ms, copy_out: 1 us, accumulate: 2 us, copy_back: 3 us}
"""
CELLS = "name,backward,copy_out,accumulate,copy_back,synchronisation\na,4 ms,1 us,2 us,3 us,1 ms\nb,4 ms,1 us,2 us,3 us,\n"
pieces = st.sampled_from(
    ["name", "a", "b", "backward", "copy_out", "4 ms", "-1 s", "1e999 s", ":", "-", " ", "\n", ",", '"', "{", "}",
     "[", "]", "layers", "synchronisation", "\0", "&a", "*a", "é", "nan"]
)  # fmt: skip


def read_times(draw: Draw, folder: Path) -> None:
    ending, good = draw(st.sampled_from([("yaml", TIMES), ("csv", CELLS)]))
    text, at = (
        draw(st.lists(pieces, max_size=30).map("".join) | st.text(max_size=60)),
        draw(st.integers(0, 300)),
    )
    file = folder / f"times.{ending}"
    file.write_bytes((good[:at] + text + good[at:]).encode("utf-8", "surrogatepass"))
    read_step_times(file, ("a", "b"), "net")


def change(draw: Draw, _: Path) -> None:
    load_machine(
        "hmc", dict([parse_change(f"{draw(st.sampled_from(CHANGEABLE))}={draw(st.text(max_size=30))}")])
    )


written = yaml.safe_dump(MODEL, sort_keys=False)
texts_of_plans = st.one_of(*(edits(json.dumps(own, indent=1)) for own in (PLAN, GRIDS, STAGED)))
READ: dict[str, Callable[[Draw, Path], object]] = {
    "any text as a model": lambda draw, _: read_and_plan(draw(yaml_text)),
    "a mutated model": lambda draw, _: read_and_plan(
        dumped(draw(mutations(MODEL)), flow=draw(st.booleans()))
    ),
    "an edited model": lambda draw, _: read_and_plan(draw(edits(written))),
    "a mutated machine": lambda draw, folder: read_and_score(
        dumped(draw(mutations(yaml.safe_load(MACHINE)) | plain)), folder
    ),
    "an edited machine": lambda draw, folder: read_and_score(draw(edits(MACHINE)), folder),
    "any text as a change": change,
    "changed bytes of an ONNX file": read_onnx,
    "a mutated plan": lambda draw, folder: read_and_write_plan(
        json.dumps(draw(mutations(PLAN) | plain)), folder
    ),
    "a mutated plan of stages": read_plan_of_stages,
    "an edited plan": lambda draw, folder: read_and_write_plan(
        draw(texts_of_plans | st.text(alphabet=st.characters(codec="utf-8"))), folder
    ),
    "any text as a space": lambda draw, _: read_space(draw(spaces)),
    "any text as a pin": lambda draw, _: read_pin(draw(pins)),
    "a table of measured times": read_times,
}
"""What is drawn and read; what is read after all is good for what it says."""


def dumped(data: Any, *, flow: bool = False) -> str:
    text: str = yaml.safe_dump(data, sort_keys=False, default_flow_style=flow)
    return text


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples."""
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("what", READ)
@settings(max_examples=examples(2600, 10), deadline=None)
@given(data=st.data())
def test_nothing_but_a_deliberate_error_is_raised(what: str, data: st.DataObject, one_folder: Path) -> None:
    with suppress(HyparError):
        READ[what](data.draw, one_folder)


ODD = ["a: &a [*a]", "? [a]\n: b", "!!int ''", "!!timestamp x", "2020-13-45", "0x" + "f" * 9999, "1" * 5000]


@pytest.mark.parametrize("text", [*ODD, "\ud800", "- " * 10_000], ids=range(9))
def test_odd_texts_as_a_model(text: str) -> None:
    with suppress(HyparError):
        read_and_plan(text)
