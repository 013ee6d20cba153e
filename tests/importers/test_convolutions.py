"""ONNX files of convolutions along one dim and three, normalisations of groups of channels, and trained slopes."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.importers import nets
from tests.importers.plans import HAND, import_network, importable

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = {"row": (4, 20), "volume": (2, 4, 4, 6), "image": (3, 8, 8)}
NAMES = ["row", *[pytest.param(name, marks=pytest.mark.slow) for name in ("volume", "image")]]


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("torch", reason="PyTorch is an extra")
    importable(tmp_path, monkeypatch, hypar_convolved=nets.CONVOLVED)
    return importlib.import_module("hypar_convolved")


def layers(found: Any) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in layer.items() if key != "name"} for layer in found.content["layers"]
    ]


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


@pytest.mark.parametrize("name", NAMES)
def test_an_onnx_file_is_read(built: Any, name: str, tmp_path: Path) -> None:
    onnx: Any = pytest.importorskip("onnx", reason="onnx is an extra")
    real, sides = onnx.TensorProto.FLOAT, len(SHAPES[name]) - 1
    nodes, weights, last = [], [], "x"

    def trained(value: Any, label: str) -> str:
        tensor = onnx.TensorProto(name=label, data_type=real, dims=[*value.shape])
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="nowhere.bin")
        weights.append(tensor)
        return label

    for number, own in enumerate(getattr(built, name)()):
        op, fields = operator(own, sides)
        held = dict(own.named_parameters())
        if type(own).__name__.startswith("BatchNorm"):
            op, fields = "BatchNormalization", {}
            held |= {"mean": own.running_mean, "var": own.running_var}
        elif op == "PRelu":
            held = {"slopes": own.weight.reshape(own.weight.numel(), *[1] * sides)}
        read = [last, *(trained(value, f"w{number}.{key}") for key, value in held.items())]
        last = f"y{number}"
        nodes.append(onnx.helper.make_node(op, read, [last], **fields))
    value = onnx.helper.make_tensor_value_info
    ends = [value("x", real, ("N", *SHAPES[name]))], [value(last, real, None)]
    graph = onnx.helper.make_graph(nodes, "net", *ends, weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    found = import_network("onnx", str(tmp_path / "net.onnx"), (), partial=True)
    assert layers(found) == HAND[name]
    assert found.coverage.opaque == {}
