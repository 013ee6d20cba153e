"""Convolutions along one dim and three, normalisations of groups of channels, and trained slopes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

import hypar
from tests.importers import nets
from tests.importers.plans import import_network, importable

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
    {"op": "prelu", "over": "channels"},
    {"op": "pool", "mode": "average", "window": "global"},
    {"op": "flatten"},
    {"op": "linear", "out_features": 5},
]
VOLUME = [
    {"op": "input", "channels": 2, "depth": 4, "height": 4, "width": 6},
    {"op": "conv3d", "out_channels": 6, "kernel": [3, 3, 1], "padding": [1, 1, 0], "bias": False},
    {"op": "group_norm", "groups": 2},
    {"op": "relu"},
    {"op": "pool3d", "mode": "max", "kernel": 3, "stride": 1, "padding": 1},
    {"op": "conv3d", "out_channels": 4, "kernel": 2, "stride": 2, "groups": 2},
    {"op": "batch_norm"},
    {"op": "prelu"},
    {"op": "pool3d", "mode": "average", "window": "global"},
    {"op": "flatten"},
    {"op": "linear", "out_features": 5},
]
IMAGE = [
    {"op": "input", "channels": 3, "height": 8, "width": 8},
    {"op": "conv", "out_channels": 8, "kernel": 3, "padding": 1},
    {"op": "group_norm", "groups": 4},
    {"op": "prelu"},
    {"op": "group_norm", "groups": 8},
    {"op": "pool", "mode": "average", "window": "global"},
    {"op": "flatten"},
    {"op": "linear", "out_features": 5},
]
SEQUENCE = [
    {"op": "input", "shape": ["mel", "sequence"]},
    {"op": "sequence_conv", "in": "mel", "out": "first", "kernel": 3, "padding": 1},
    {"op": "gelu"},
    {
        "op": "sequence_conv",
        "in": "first",
        "out": "hidden",
        "kernel": 3,
        "stride": 2,
        "padding": 1,
        "bias": False,
    },
    {"op": "position"},
    {"op": "linear", "in": "hidden", "out": ["heads", "head_dim"]},
    {"op": "linear", "in": "hidden", "out": ["heads", "head_dim"], "inputs": "positions"},
    {"op": "linear", "in": "hidden", "out": ["heads", "head_dim"], "inputs": "positions"},
    {"op": "attention", "inputs": ["q", "k", "v"]},
    {"op": "sequence_conv", "each": ["heads", "head_dim"], "kernel": 5, "padding": 2, "bias": False},
    {"op": "position", "over": ["heads", "head_dim"]},
    {"op": "layer_scale", "over": ["heads", "head_dim"]},
    {"op": "position", "over": ["heads", "head_dim"], "rows": 20},
    {"op": "linear", "in": ["heads", "head_dim"], "out": "classes"},
]
SHAPES = {"row": (4, 20), "volume": (2, 4, 4, 6), "image": (3, 8, 8)}
WANTED = {"row": ROW, "volume": VOLUME, "image": IMAGE}
NAMES = ["row", *[pytest.param(name, marks=pytest.mark.slow) for name in ("volume", "image")]]


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the networks."""
    pytest.importorskip("torch", reason="PyTorch is an extra")
    importable(tmp_path, monkeypatch, hypar_convolved=nets.CONVOLVED)
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
    assert network.num_parameters == held
    torch: Any = importlib.import_module("torch")
    counter_of = importlib.import_module("torch.utils.flop_counter").FlopCounterMode
    with counter_of(display=False) as counter:
        getattr(built, name)()(torch.zeros(2, *SHAPES[name]))
    assert 2 * network.macs(batch=2) == counter.get_total_flops()
    hypar.plan_model(network, levels=2)


def test_rows_that_become_a_sequence_are_one(built: Any) -> None:
    found = import_network("torch", "hypar_convolved:sequence", [(6, 16)])
    assert found.coverage.opaque == {}
    names = {"q": 5, "k": 6, "v": 7, "positions": 4}
    given = [layer["name"] if "name" in layer else layer["op"] for layer in found.content["layers"]]
    renamed = {given[number]: name for name, number in names.items()}
    said = [{**layer} for layer in layers(found)]
    for layer in said:
        if "inputs" in layer:
            inputs = layer["inputs"] if isinstance(layer["inputs"], list) else [layer["inputs"]]
            own = [renamed.get(name, name) for name in inputs]
            layer["inputs"] = own if len(own) > 1 else own[0]
    dims = found.content["dims"]
    wanted = {"mel": 6, "first": 8, "sequence": 16, "hidden": 12, "heads": 3, "head_dim": 4, "classes": 5}
    assert sorted(dims.values()) == sorted(wanted.values())
    called = {size: name for name, size in wanted.items()}
    assert [named(layer, {name: called[size] for name, size in dims.items()}) for layer in said] == SEQUENCE
    network = found.graph()
    assert network.num_parameters == sum(value.numel() for value in built.sequence().parameters())
    hypar.plan_model(network, levels=2, strategy="optimal")


def named(layer: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """A layer with other names of its dims."""
    found = dict(layer)
    for key in ("in", "out", "each", "over", "shape"):
        value = found.get(key)
        if isinstance(value, str):
            found[key] = names[value]
        elif value is not None:
            found[key] = [names[one] for one in value]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_an_onnx_file_is_read(built: Any, name: str, tmp_path: Path) -> None:
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
            read += held.values()
        elif kind == "InstanceNorm2d":
            op = "InstanceNormalization"
            read += held.values()
        elif kind == "PReLU":
            op = "PRelu"
            sizes = (own.weight.numel(), *[1] * (len(SHAPES[name]) - 1))
            read += [trained(own.weight.reshape(sizes), f"w{number}.slopes")]
            weights[:] = [one for one in weights if one.name != f"w{number}.weight"]
        elif kind.startswith("MaxPool"):
            sides = int(kind[-2])
            op, fields = (
                "MaxPool",
                {
                    "kernel_shape": [own.kernel_size] * sides,
                    "strides": [own.stride] * sides,
                    "pads": [own.padding] * 2 * sides,
                },
            )
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
