"""The networks in models/ against what is published of them."""

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from hypar.network.graph import LayerGraph, load_model
from hypar.registry import data_names

MODELS = data_names("models")
ALIASES = {"vgg-a": "vgg11", "vgg-b": "vgg13", "vgg-d": "vgg16", "vgg-e": "vgg19"}

PUBLISHED: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("published.yaml").read_text(encoding="utf-8")
)
PARAMETERS = PUBLISHED["parameters"] | {
    # Not published; weights and biases of the filters in Ronneberger et al., Figure 1: five pairs of 3x3 down, four
    # 2x2 up-convolutions, four pairs up and the 1x1.
    "unet": sum(
        (9 * i + 1) * o + (9 * o + 1) * o
        for i, o in [(1, 64), (64, 128), (128, 256), (256, 512), (512, 1024)]
    )
    + sum((4 * 2 * o + 1) * o + (9 * 2 * o + 1) * o + (9 * o + 1) * o for o in (512, 256, 128, 64))
    + (64 + 1) * 2
}
TRANSFORMERS = {*PARAMETERS} & {"gpt2", "bert-large", "gpt3-175b", "mixtral-8x7b"}
TRANSFORMERS |= {name for name in PARAMETERS if name.startswith("llama")}
WRONG = {"conv1_": "7*7*3*64 * 112*112 is 118 M", "inception_5a": "the row's filters give 51 M"}


def macs_below(graph: LayerGraph, prefix: str) -> int:
    return sum(layer.macs() for layer in graph.layers if layer.name.startswith(prefix))


def depth(graph: LayerGraph) -> int:
    """Weighted layers on the longest way through."""
    depths: dict[str, int] = {}
    for layer in graph.layers:
        depths[layer.name] = layer.weighted + max((depths[name] for name in layer.inputs), default=0)
    return max(depths.values())


def test_every_model_is_counted() -> None:
    assert sorted({*PARAMETERS, *ALIASES}) == list(MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_model_loads(model: str) -> None:
    graph = load_model(model)
    assert graph.name == model
    assert graph.source.strip()
    assert graph.batch == (32 if model in TRANSFORMERS else 256)


@pytest.mark.parametrize("model", sorted({*MODELS} - {"unet"} - TRANSFORMERS))
def test_classes(model: str) -> None:
    shape = load_model(model).layers[-1].shape
    classes = 10 if model in {"sfc", "sconv", "lenet-c", "cifar-c"} else 1000
    assert shape.get("channels", classes) == math.prod(shape.values()) == classes


def test_gpt3_has_the_parameters_of_table_d_1() -> None:
    assert round(load_model("gpt3-175b").num_parameters / 1e8) * 100 == 174_600


def test_mixtral_has_the_active_parameters_of_its_paper() -> None:
    """Jiang et al., section 1: each token has access to 47B parameters, but only uses 13B."""
    graph = load_model("mixtral-8x7b")
    experts = sum(layer.num_parameters for layer in graph.layers if getattr(layer.op, "each", None))
    assert round((graph.num_parameters - experts) / 1e9 + experts / 1e9 * 2 / 8) == 13


@pytest.mark.parametrize("model", sorted(TRANSFORMERS))
def test_a_transformer_multiplies_twice_its_matrices_and_scores(model: str) -> None:
    """Kaplan et al. (2020), section 2.1: 2 N + 2 layers context width operations a token, N without embeddings."""
    graph = load_model(model)
    (first, *_) = [layer for layer in graph.layers if layer.op_name == "attention"]
    attended = [layer for layer in graph.layers if layer.op_name == "attention"]
    tokens = first.input_shapes[0]["sequence"]
    width = math.prod(first.shape.values()) // tokens
    matrices = sum(
        math.prod(layer.nest(1).sizes[dim] for dim in layer.nest(1).weight)
        // (4 if getattr(layer.op, "each", None) else 1)
        for layer in graph.layers
        if layer.op_name == "linear"
    )
    matrices += sum(2 * layer.shape["hidden"] for layer in graph.layers if layer.op_name == "combine")
    causal = 1 if first.nest(1).fraction < 1 else 2
    assert graph.macs() == tokens * matrices + causal * len(attended) * tokens**2 * width


@pytest.mark.parametrize(("alias", "model"), ALIASES.items())
def test_alias(alias: str, model: str) -> None:
    assert load_model(alias).digest == load_model(model).digest


@pytest.mark.parametrize(("model", "published"), PARAMETERS.items())
def test_parameters(model: str, published: int) -> None:
    assert load_model(model).num_parameters == published


@pytest.mark.parametrize(("model", "millions"), PUBLISHED["million parameters"].items())
def test_vgg_table_2(model: str, millions: int) -> None:
    assert round(load_model(model).num_parameters / 1e6) == millions


def test_vgg_f_bytes() -> None:
    """Mori et al.: weights without biases and four floats a channel of batch normalisation, 243.4455 MB."""
    layers = load_model("vgg-f").layers
    weights = sum(layer.nest(1).elements("weight") for layer in layers if layer.weighted)
    channels = sum(layer.shape["channels"] for layer in layers if layer.op_name == "batch_norm")
    num_bytes = 4 * (weights + 4 * channels)
    assert num_bytes == 243_445_504
    assert round(num_bytes / 1e6, 4) == 243.4455


@pytest.mark.parametrize(("model", "published"), PUBLISHED["giga macs"].items())
def test_macs(model: str, published: float) -> None:
    assert load_model(model).macs() / 1e9 == pytest.approx(published, abs=0.0005)


def test_alexnet_macs() -> None:
    """Outputs times weights of each layer without groups: 1.135 G, where two groups have 0.724 G."""
    conv1, conv2 = 96 * 55**2 * 3 * 11**2, 256 * 27**2 * 96 * 5**2
    conv3_to_5 = 13**2 * 3**2 * (256 * 384 + 384 * 384 + 384 * 256)
    fc = 9216 * 4096 + 4096 * 4096 + 4096 * 1000
    assert load_model("alexnet").macs() == conv1 + conv2 + conv3_to_5 + fc == 1_135_256_096


def test_unet_macs() -> None:
    """Outputs times taps of each convolution; of an up-convolution inputs times taps."""
    pairs = [
        (570, 568, 1, 64),
        (282, 280, 64, 128),
        (138, 136, 128, 256),
        (66, 64, 256, 512),
        (30, 28, 512, 1024),
    ]
    pairs += [(54, 52, 1024, 512), (102, 100, 512, 256), (198, 196, 256, 128), (390, 388, 128, 64)]
    macs = sum(9 * (first**2 * i * o + second**2 * o * o) for first, second, i, o in pairs)
    macs += sum(4 * side**2 * 2 * o * o for side, o in [(28, 512), (52, 256), (100, 128), (196, 64)])
    assert load_model("unet").macs() == macs + 388**2 * 64 * 2


@pytest.mark.parametrize(
    ("row", "published"),
    [
        pytest.param(*row, marks=[pytest.mark.xfail(strict=True, reason=WRONG[row[0]])])
        if row[0] in WRONG
        else row
        for row in PUBLISHED["googlenet mega macs"].items()
    ],
)
def test_googlenet_table_1(row: str, published: int) -> None:
    assert macs_below(load_model("googlenet"), row) / 1e6 == pytest.approx(published, abs=1)


def test_googlenet_macs() -> None:
    """The rows of Table 1 add up to 1,502 M; with what the two rows that are wrong should say, 1,583 M."""
    published = 1502 + (118 - 34) + (51 - 54)
    assert load_model("googlenet").macs() / 1e6 == pytest.approx(published, abs=1)


@pytest.mark.parametrize(("model", "published"), PUBLISHED["depth"].items())
def test_depth(model: str, published: int) -> None:
    assert depth(load_model(model)) == published


@pytest.mark.parametrize(
    ("model", "name", "shape"),
    [(model, *row) for model, rows in PUBLISHED["shapes"].items() for row in rows.items()],
)
def test_shape(model: str, name: str, shape: list[int]) -> None:
    layer = next(layer for layer in load_model(model).layers if layer.name == name)
    assert [*layer.shape.values()] == shape
