"""Convolutions along one dim and three, normalisations of groups of channels, and trained slopes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

import hypar
from hypar.importers.formats import import_network
from tests.importers import nets

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")

ROW = [
    {"op": "input", "channels": 4, "height": 1, "width": 20},
    {"op": "conv1d", "out_channels": 8, "kernel": 5, "padding": 2},
    {"op": "batch_norm"},
    {"op": "relu"},
    {"op": "pool", "mode": "max", "kernel": [1, 2]},
    {"op": "conv1d", "out_channels": 12, "kernel": 3, "stride": 2, "padding": 1, "groups": 4, "bias": False},
    {"op": "group_norm", "groups": 3},
    {"op": "pointwise", "function": "leaky_relu"},
    {"op": "pool", "mode": "average", "window": "global"},
    {"op": "flatten"},
    {"op": "linear", "out_features": 5},
]
VOLUME = [
    {"op": "input", "channels": 2, "depth": 4, "height": 4, "width": 6},
    {"op": "conv3d", "out_channels": 6, "kernel": [3, 3, 1], "padding": [1, 1, 0], "bias": False},
    {"op": "group_norm", "groups": 2, "scale": False, "shift": False},
    {"op": "relu"},
    {"op": "conv3d", "out_channels": 4, "kernel": 2, "stride": 2},
    {"op": "batch_norm"},
    {"op": "pointwise", "function": "leaky_relu"},
    {"op": "flatten"},
    {"op": "linear", "out_features": 5},
]
IMAGE = [
    {"op": "input", "channels": 3, "height": 8, "width": 8},
    {"op": "conv", "out_channels": 8, "kernel": 3, "padding": 1},
    {"op": "group_norm", "groups": 4},
    {"op": "pointwise", "function": "leaky_relu"},
    {"op": "group_norm", "groups": 8},
    {"op": "pool", "mode": "average", "window": "global"},
    {"op": "flatten"},
    {"op": "linear", "out_features": 5},
]
SHAPES = {"row": (4, 20), "volume": (2, 4, 4, 6), "image": (3, 8, 8)}
WANTED = {"row": ROW, "volume": VOLUME, "image": IMAGE}
NAMES = ["row", *[pytest.param(name, marks=pytest.mark.slow) for name in ("volume", "image")]]
SLOPES = {"row": 12, "volume": 1, "image": 1}


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the networks."""
    pytest.importorskip("torch", reason="PyTorch is an extra")
    (tmp_path / "hypar_convolved.py").write_text(nets.CONVOLVED, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module("hypar_convolved")


def layers(found: Any) -> list[dict[str, Any]]:
    """The layers of a network without their names."""
    return [
        {key: value for key, value in layer.items() if key != "name"} for layer in found.content["layers"]
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_read(built: Any, name: str) -> None:
    found = import_network("torch", f"hypar_convolved:{name}", [SHAPES[name]], partial=True)
    assert layers(found) == WANTED[name]
    assert found.coverage.opaque == {}
    network = found.graph()
    held = sum(value.numel() for value in getattr(built, name)().parameters())
    assert network.num_parameters == held - SLOPES[name]
    torch: Any = importlib.import_module("torch")
    counter_of = importlib.import_module("torch.utils.flop_counter").FlopCounterMode
    with counter_of(display=False) as counter:
        getattr(built, name)()(torch.zeros(2, *SHAPES[name]))
    assert 2 * network.macs(batch=2) == counter.get_total_flops()
    hypar.plan_model(network, levels=2)


@pytest.mark.parametrize("name", NAMES)
def test_an_onnx_file_is_read(built: Any, name: str, tmp_path: Path) -> None:  # noqa: C901 (one case an operator)
    onnx: Any = pytest.importorskip("onnx", reason="onnx is an extra")
    real, node = onnx.TensorProto.FLOAT, onnx.helper.make_node
    module = getattr(built, name)()
    weights, nodes, last = [], [], "x"

    def trained(value: Any, label: str) -> str:
        tensor = onnx.TensorProto(name=label, data_type=real, dims=[*value.shape])
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="nowhere.bin")
        weights.append(tensor)
        return label

    for number, own in enumerate(module):
        kind, made, read = type(own).__name__, f"y{number}", [last]
        held = {key: trained(value, f"w{number}.{key}") for key, value in own.named_parameters()}
        fields: dict[str, Any] = {}
        if kind.startswith("Conv"):
            op, pads = "Conv", [*own.padding, *own.padding]
            fields = {
                "kernel_shape": own.kernel_size,
                "strides": own.stride,
                "pads": pads,
                "group": own.groups,
            }
            read += held.values()
        elif kind.startswith("BatchNorm"):
            op = "BatchNormalization"
            statistics = [
                trained(getattr(own, f"running_{key}"), f"w{number}.{key}") for key in ("mean", "var")
            ]
            read += [*held.values(), *statistics]
        elif kind == "GroupNorm":
            op, fields = "GroupNormalization", {"num_groups": own.num_groups}
            if not held:
                pytest.skip("the operator always has a scale and a shift")
            read += held.values()
        elif kind == "InstanceNorm2d":
            op = "InstanceNormalization"
            read += held.values()
        elif kind == "PReLU":
            op = "PRelu"
            sizes = (own.weight.numel(), *[1] * (len(SHAPES[name]) - 1))
            read += [trained(own.weight.reshape(sizes), f"w{number}.slopes")]
            weights[:] = [one for one in weights if one.name != f"w{number}.weight"]
        elif kind == "MaxPool1d":
            op, fields = "MaxPool", {"kernel_shape": [own.kernel_size], "strides": [own.stride]}
        elif kind == "Linear":
            op, fields = "Gemm", {"transB": 1}
            read += held.values()
        else:
            op = {"ReLU": "Relu", "Flatten": "Flatten"}.get(kind, "GlobalAveragePool")
        nodes.append(node(op, read, [made], **fields))
        last = made
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "net", [value("x", real, ("N", *SHAPES[name]))], [value(last, real, None)], weights
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    file = tmp_path / "net.onnx"
    file.write_bytes(model.SerializeToString())
    found = import_network("onnx", str(file), (), partial=True)
    assert layers(found) == WANTED[name]
    assert found.coverage.opaque == {}
