"""ONNX files as model files, and as models of every command."""

import importlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import hypar
from hypar.cli.main import main
from tests.effort import late
from tests.importers import nets
from tests.importers.plans import HAND, assert_equal_plans, by_hand, import_network, importable, refusal

onnx: Any = pytest.importorskip("onnx", reason="onnx is an extra")


def weight(name: str, *sizes: int, external: bool = True) -> Any:
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=sizes)
    if external:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="nowhere.bin")
    return tensor


def save(
    file: Path,
    nodes: list[Any],
    weights: list[Any],
    *,
    sizes: Any = ("N", 3, 32, 32),
    out: str = "y",
    version: int = 17,
    real: int = 1,
) -> Path:
    graph = onnx.helper.make_graph(
        nodes,
        "net",
        [onnx.helper.make_tensor_value_info("x", real, sizes)],
        [onnx.helper.make_tensor_value_info(out, real, None)],
        weights,
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)], ir_version=8)
    file.write_bytes(model.SerializeToString())
    return file


def net(file: Path, **changed: Any) -> Path:
    """The network of ``residual`` in ``hand.yaml``, its modules in the names of its operators."""
    node, weights = onnx.helper.make_node, [weight("stem.w", 8, 3, 3, 3), weight("stem.b", 8)]
    near = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [node("Conv", ["x", "stem.w", "stem.b"], ["s"], name="/stem/Conv", strides=[2, 2], **near)]
    last = "s"
    for turn in range(3):
        at, of = f"/body/body.{turn}", f"b{turn}."
        names = [(f"{of}w1", (8, 8, 3, 3)), (f"{of}w2", (8, 4, 3, 3)), *((f"{of}{n}", (8,)) for n in "bghmv")]
        weights += [weight(name, *sizes) for name, sizes in names]
        norm = [f"{of}1", *(f"{of}{part}" for part in "ghmv")]
        nodes += [
            node("Conv", [last, f"{of}w1"], [f"{of}1"], name=f"{at}/conv1/Conv", **near),
            node("BatchNormalization", norm, [f"{of}2"], name=f"{at}/bn1/BatchNormalization"),
            node("Relu", [f"{of}2"], [f"{of}3"], name=f"{at}/relu/Relu"),
            node(
                "Conv", [f"{of}3", f"{of}w2", f"{of}b"], [f"{of}4"], name=f"{at}/conv2/Conv", group=2, **near
            ),
            node("Add", [last, f"{of}4"], [f"{of}5"], name=f"{at}/Add"),
            node("Relu", [f"{of}5"], [f"{of}6"], name=f"{at}/relu_1/Relu"),
        ]
        last = f"{of}6"
    nodes += [
        node("GlobalAveragePool", [last], ["p"], name="/pool/GlobalAveragePool"),
        node("Flatten", ["p"], ["f"], name="/Flatten"),
        node("Gemm", ["f", "fc.w", "fc.b"], ["l"], name="/fc/Gemm", transB=1),
        node("Softmax", ["l"], ["y"], name="/Softmax", axis=1),
    ]
    return save(file, nodes, [*weights, weight("fc.w", 10, 8), weight("fc.b", 10)], **changed)


def test_a_file_and_the_model_by_hand_have_one_plan(tmp_path: Path) -> None:
    file = net(tmp_path / "net.onnx")
    assert_equal_plans(hypar.from_onnx(file), by_hand("residual"))
    result = CliRunner().invoke(main, ["import", "onnx", str(file)], prog_name="hypar")
    assert "recognised 100 % of " in result.output
    assert "name: body, repeat: 3" in result.output


BAD: dict[str, tuple[Any, str]] = {
    "missing": (lambda file: None, "cannot be read: No such file or directory"),
    "a folder": (lambda file: file.mkdir(), "cannot be read: Is a directory"),
    "empty": (lambda file: file.write_bytes(b""), "found no operator; allowed: an ONNX model with a graph"),
    "text": (lambda file: file.write_text("source: 3\n"), "not an ONNX file, or cut short: DecodeError: "),
    "3 GB declared": (
        lambda file: one(file, [weight("w", 2**14, 3, 128, 128, external=False)], raw=True),
        "tensor 'w' cannot be read: ValueError: cannot reshape array of size 0 into shape (16384",
    ),
    "open sizes": (
        lambda file: net(file, sizes=("N", 3, "H", 32)),
        "dim 2 of input 'x' is H; allowed: whole numbers",
    ),
    "no shape": (
        lambda file: net(file, sizes=()),
        "input 'x' has no shape; allowed: samples, and their sizes",
    ),
    "channels that do not fit": (
        lambda file: one(file, [weight("w", 8, 4, 3, 3)]),
        "bad: recognised 0 % of ",
    ),
    "a result of nothing": (
        lambda file: one(file, [weight("w", 8, 3, 3, 3)], out="z"),
        "does not depend on the input",
    ),
    "a name of other bytes": (
        lambda file: one(file, [weight("w", 8, 3, 3, 3)]).write_bytes(
            file.read_bytes().replace(b"Conv", b"Co\xffv")
        ),
        "not a valid model: UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff",
    ),
    "a number format of no name": (
        lambda file: one(file, [onnx.TensorProto(name="w", data_type=99, dims=[8, 3, 3, 3])]),
        "'w' has no number format of onnx: KeyError: 99",
    ),
    "no sample": (
        lambda file: save(file, [onnx.helper.make_node("Relu", ["x"], ["y"])], [], sizes=("N",)),
        "found a sample of nothing in its input",
    ),
}


def one(file: Path, weights: list[Any], *, kind: str = "Conv", raw: bool = False, out: str = "y") -> Path:
    if raw:
        weights[0].raw_data = b""
    domain = "" if kind == "Conv" else "mine"
    return save(file, [onnx.helper.make_node(kind, ["x", "w"], ["y"], domain=domain)], weights, out=out)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str, tmp_path: Path) -> None:
    write, line = BAD[case]
    write(tmp_path / "bad.onnx")
    for command in (["import", "onnx"], ["plan"]):
        assert line in refusal(*command, str(tmp_path / "bad.onnx"))


def test_a_shape_that_onnx_does_not_infer_is_opaque(tmp_path: Path) -> None:
    """As the first exporter of PyTorch writes attention: sizes of a reshape, and one number as where a slice begins."""
    whole, node = onnx.TensorProto.INT64, onnx.helper.make_node
    numbers = {"sizes": [2, 3, 6], "large": [9, 9, 9], "back": [2, 6, 3], "one": [1], "end": [4]}
    held = [onnx.helper.make_tensor(name, whole, [len(own)], own) for name, own in numbers.items()]
    nodes = [
        node("Reshape", ["first", "one"], ["start"]),
        node("Slice", ["x", "start", "end", "one"], ["s"]),
        node("Mod", ["sizes", "large"], ["unknown"]),
        node("Reshape", ["s", "unknown"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        node("Reshape", ["t", "back"], ["b"]),
        node("MatMul", ["b", "w"], ["y"]),
    ]
    held.append(onnx.helper.make_tensor("first", whole, [], [1]))
    file = save(tmp_path / "net.onnx", nodes, [weight("w", 3, 5), *held], sizes=("N", 4, 6))
    found = import_network("onnx", str(file), (), partial=True)
    assert found.coverage.opaque == {"Slice-Reshape-Transpose": 1}
    assert found.coverage.shares == (1.0, 1.0)


# Convolutions along one dim and three, normalisations of groups of channels, and trained slopes


SHAPES = {"row": (4, 20), "volume": (2, 4, 4, 6), "image": (3, 8, 8)}


def operator(own: Any, sides: int) -> tuple[str, dict[str, Any]]:
    """The ONNX operator of a module on images of some sides, and its attributes."""
    kind = type(own).__name__
    if kind.startswith("Conv"):
        shape = {"kernel_shape": own.kernel_size, "strides": own.stride, "pads": [*own.padding] * 2}
        return "Conv", {**shape, "group": own.groups}
    if kind.startswith("MaxPool"):
        shape = {"kernel_shape": [own.kernel_size] * sides, "strides": [own.stride] * sides}
        return "MaxPool", {**shape, "pads": [own.padding] * 2 * sides}
    if kind == "GroupNorm":
        return "GroupNormalization", {"num_groups": own.num_groups}
    others = {
        "ReLU": "Relu",
        "PReLU": "PRelu",
        "Flatten": "Flatten",
        "InstanceNorm2d": "InstanceNormalization",
    }
    return ("Gemm", {"transB": 1}) if kind == "Linear" else (others.get(kind, "GlobalAveragePool"), {})


@pytest.mark.parametrize("name", late(SHAPES, "volume", "image"))
def test_operators_of_modules_are_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="PyTorch is an extra")
    importable(tmp_path, monkeypatch, hypar_convolved=nets.CONVOLVED)
    sides = len(SHAPES[name]) - 1
    nodes, weights, last = [], [], "x"
    for number, own in enumerate(getattr(importlib.import_module("hypar_convolved"), name)()):
        op, fields = operator(own, sides)
        held = dict(own.named_parameters())
        if type(own).__name__.startswith("BatchNorm"):
            op, fields = "BatchNormalization", {}
            held |= {"mean": own.running_mean, "var": own.running_var}
        elif op == "PRelu":
            held = {"slopes": own.weight.reshape(own.weight.numel(), *[1] * sides)}
        given = {f"w{number}.{key}": value for key, value in held.items()}
        weights += [weight(label, *value.shape) for label, value in given.items()]
        nodes.append(onnx.helper.make_node(op, [last, *given], [f"y{number}"], **fields))
        last = f"y{number}"
    file = save(tmp_path / "net.onnx", nodes, weights, sizes=("N", *SHAPES[name]), out=last, version=21)
    found = import_network("onnx", str(file), (), partial=True)
    layers = [{key: layer[key] for key in layer if key != "name"} for layer in found.content["layers"]]
    assert layers == HAND[name]
    assert found.coverage.opaque == {}
