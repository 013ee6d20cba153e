"""PyTorch modules as model files."""

import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

import hypar
from tests.importers import nets
from tests.importers.plans import assert_equal_plans, by_hand, import_network, importable, refusal
from tests.kit import run

pytestmark = [pytest.mark.usefixtures("torch"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return importable(tmp_path, monkeypatch, hypar_nets=nets.NETS, hypar_broken=nets.BROKEN)


def test_a_module_and_the_file_by_hand_have_one_plan(folder: Path) -> None:
    found = import_network("torch", "hypar_nets:build", [(3, 32, 32)])
    assert str(found.coverage).startswith("recognised 100 % of ")
    assert found.coverage.opaque == {}
    assert "{block: block, name: body, repeat: 3}" in found.text()
    written = folder / "net.yaml"
    found.write(written)
    imported = hypar.load_model(written)
    assert_equal_plans(imported, by_hand("residual"))
    assert imported.batch == 256
    assert yaml.safe_load(found.text()) == found.content


def test_the_operations_are_those_that_pytorch_counts(torch: Any) -> None:
    import hypar_nets  # type: ignore[import-not-found]  # noqa: PLC0415 (written by the fixture)

    counter_of = import_module("torch.utils.flop_counter").FlopCounterMode

    module, example = hypar_nets.build(), torch.zeros(2, 3, 32, 32)
    network = hypar.from_torch(module.eval(), example)
    with counter_of(display=False) as counter:
        module.train()(example)
    assert 2 * network.macs(batch=2) == counter.get_total_flops()
    assert network.num_parameters == sum(held.numel() for held in module.parameters())
    assert (network.batch, network.name) == (2, "Net")


def test_an_example_of_one_sample_is_enough(torch: Any) -> None:
    import hypar_nets  # noqa: PLC0415 (written by the fixture)

    one, two = (hypar.from_torch(hypar_nets.encoder(), torch.zeros(batch, 6, 8), batch=4) for batch in (1, 2))
    assert (one.num_parameters, one.macs()) == (two.num_parameters, two.macs())
    images = [
        hypar.from_torch(hypar_nets.gated(), torch.zeros(batch, 3, 32, 32), batch=4) for batch in (1, 2)
    ]
    assert [layer.op for layer in images[0].layers] == [layer.op for layer in images[1].layers]


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_a_sample_of_one_number_that_is_no_image_is_refused(shape: tuple[int, ...]) -> None:
    found = f"found a sample of {'x'.join(map(str, shape))} in its input"
    with pytest.raises(hypar.HyparError, match=found):
        import_network("torch", "hypar_nets:copies", [shape], tokens=frozenset([0]))


def test_little_recognised_is_refused_unless_it_is_asked_for() -> None:
    with pytest.raises(hypar.HyparError, match=r"recognised 9\d\.\d % of .* opaque.*allowed: 99 % of both"):
        import_network("torch", "hypar_nets:Mixed", [(3, 4, 4)])
    found = import_network("torch", "hypar_nets:Mixed", [(3, 4, 4)], partial=True)
    assert [entry["op"] for entry in found.content["layers"]] == [
        "input",
        "conv",
        "flatten",
        "opaque",
        "opaque",
        "linear",
    ]
    assert found.coverage.opaque == {"matmul": 2}
    plan = hypar.plan_model(found.graph(), levels=2, strategy="optimal")
    assert {*plan.dims(found.graph().layers[3].name)} <= {"batch", "whole"}


def test_results_and_weights_that_the_file_does_not_say_are_told() -> None:
    found = import_network("torch", "hypar_nets:Shared", [(4,)])
    assert found.coverage.shares == (1.0, 1.0)
    assert [entry["op"] for entry in found.content["layers"]] == ["input", "linear", "linear"]
    copies = "used by several layers, each of which has its own in the model file"
    assert found.notes == ("1 further results are left out", f"a.bias and 1 more: {copies}")


SLOW = pytest.mark.slow
SEQUENCE = [(6, 8)]
READ: list[Any] = [
    ("gated", [(3, 32, 32)], {"scale": 2}, {}),
    # A dim that is made may be that of the channels of an image, and no tensor has two of these.
    ("whole", [(3, 4, 4)], {"linear": 2, "multiply": 0}, {}),
    ("beside", [(3, 4, 4)], {"linear": 2, "opaque": 1}, {"mul": 1}),
    ("Written", SEQUENCE, {"linear": 1, "softmax": 1}, {}),
    ("Sequence", [(3, 4, 4)], {"conv": 2, "opaque": 1}, {"mean": 1}),
    # Parts of a layer are layers, unless the whole is read too.
    ("parts", [(3, 4)], {"linear": 4}, {}),
    ("parts_and_whole", [(3, 4)], {"linear": 2}, {"split_with_sizes": 1, "chunk": 1}),
    pytest.param("encoder", SEQUENCE, {}, {}, marks=SLOW),
    pytest.param("Translates", [(6,), (5,)], {"embedding": 2}, {}, marks=SLOW),
    pytest.param("Up", [(3, 8, 8)], {"conv_transpose": 1, "concat": 1}, {}, marks=SLOW),
    pytest.param("dropping", [(8,)], {"dropout": 1}, {}, marks=SLOW),
]
"""A network, its inputs, how many layers of some ops are read, and what is opaque."""


@pytest.mark.parametrize(("build", "shapes", "ops", "opaque"), READ)
def test_layers_of_pytorch_are_recognised(build: str, shapes: Any, ops: dict[str, int], opaque: Any) -> None:
    import hypar_nets  # noqa: PLC0415 (written by the fixture)

    tokens = frozenset({0, 1}) if build == "Translates" else frozenset[int]()
    found = import_network("torch", f"hypar_nets:{build}", shapes, tokens=tokens)
    assert found.coverage.opaque == opaque
    counted = Counter(entry.get("op") for entry in found.content["layers"])
    assert {op: counted[op] for op in ops} == ops
    graph = found.graph()
    if build != "beside":
        assert found.coverage.shares == (1.0, 1.0)
        assert graph.num_parameters == sum(held.numel() for held in getattr(hypar_nets, build)().parameters())
    if build == "Written":
        assert graph.layers[-1].op.over == ("sequence",)  # type: ignore[attr-defined]
    assert (", repeat: 3}" in found.text()) == (build in {"encoder", "gated"})
    hypar.plan_model(graph, levels=2, strategy="optimal")


@pytest.mark.slow
def test_the_lengths_of_a_weight_normalisation_are_no_part_of_a_layer() -> None:
    found = import_network("torch", "hypar_nets:weight_norm", [(400,)])
    assert (found.coverage.parameters, found.coverage.said_parameters) == (6585, 6569)
    assert found.graph().num_parameters == 6569


SIZES = ["--input", "3x32x32"]
BAD = {
    "no module": (
        "nowhere_at_all:build",
        SIZES,
        "no module 'nowhere_at_all'; allowed: a module of the working",
    ),
    "no name": ("hypar_nets", SIZES, "import: found 'hypar_nets'; allowed: a module and a name in it"),
    "a missing import": (
        "hypar_broken:build",
        SIZES,
        "raised ModuleNotFoundError: No module named 'nonsense",
    ),
    "a function that raises": ("hypar_nets:failing", SIZES, "failing: raised ValueError: no weights here"),
    "a function that exits": ("hypar_nets:leaving", SIZES, "hypar_nets:leaving: raised SystemExit: 7"),
    "no torch module": ("hypar_nets:nothing", SIZES, "found a int; allowed: a torch.nn.Module"),
    "a number": (
        "hypar_nets:number",
        SIZES,
        "found a int; allowed: a torch.nn.Module, or a function that returns one",
    ),
    "another shape": ("hypar_nets:build", ["--input", "4x32x32"], "torch.export cannot capture it: "),
    "a recurrence": (
        "hypar_nets:Recurrent",
        ["--input", "5:int64"],
        "recognised 21.9 % of 3.28 k FLOP and 33.6 % of 241 parameters; opaque, cut in the batch alone: 1 lstm;",
    ),
    "samples last": (
        "hypar_nets:samples_last",
        ["--input", "5x8"],
        "samples_last: found an attention over its first axis, that of the samples; allowed: samples first",
    ),
    "sizes by data": ("hypar_nets:Open", SIZES, "found a result of 0"),
    "a constant": ("hypar_nets:Unused", ["--input", "4"], "the result does not depend on the input"),
    "no input": ("hypar_nets:build", [], "--input: no shape is given; allowed: the shape of a sample"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str) -> None:
    network, options, line = BAD[case]
    assert line in refusal("import", "torch", network, *options)


def test_a_plan_takes_what_an_import_takes(tmp_path: Path) -> None:
    """The kind follows from what the function returns; a plan of it is found again by the model file."""
    kinds = [[], ["torch"]]
    files = [
        run(
            "import", *kind, "hypar_nets:build", "--input", SIZES[1], "-o", str(tmp_path / "build.yaml")
        ).stderr
        for kind in kinds
    ]
    assert files[0] == files[1]
    planned = run("plan", "hypar_nets:build", "--input", SIZES[1], "-o", str(tmp_path / "p.json"), "--json")
    assert planned.exit_code == 0, planned.stderr
    assert f"hypar import hypar_nets:build --input {SIZES[1]} -o build.yaml" in planned.stderr
    assert (
        json.loads(planned.stdout)["cost"]
        == json.loads(run("plan", str(tmp_path / "build.yaml"), "--json").stdout)["cost"]
    )
    assert run("check", str(tmp_path / "p.json")).exit_code == 0
    assert "--input: given for lenet-c" in run("plan", "lenet-c", "--input", "3").stderr
