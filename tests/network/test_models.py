"""The networks in models/ against what is published of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from hypar.network.graph import load_model
from hypar.registry import data_names

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph

MODELS = data_names("models")
ALIASES = {"vgg-a": "vgg11", "vgg-b": "vgg13", "vgg-d": "vgg16", "vgg-e": "vgg19"}

PARAMETERS = {
    # Not published; (inputs + bias) * outputs of the layers in HyPar, Table 4.
    "sfc": (784 + 1) * 8192 + 2 * (8192 + 1) * 8192 + (8192 + 1) * 10,
    "sconv": (25 + 1) * 20 + (20 * 25 + 1) * 50 + (50 * 25 + 1) * 50 + (50 * 25 + 1) * 10,
    # The same of Caffe's lenet.prototxt and cifar10_quick.prototxt.
    "lenet-c": 431_080,
    "cifar-c": 145_578,
    # The one-column AlexNet of Netscope and osmr/imgclsmob, and the one of 2012 with two groups, Caffe's bvlc_alexnet.
    "alexnet": 62_378_344,
    "alexnet-2012": 60_965_224,
    # VGG-F is published as 243.4455 MB, see test_vgg_f_bytes; here its fc8 has a bias besides, and of the four
    # numbers a channel two are trained.
    "vgg-f": 243_445_504 // 4 - 2 * (64 + 4 * 256 + 2 * 4096) + 1000,
    # torchvision's num_params.
    "vgg11": 132_863_336,
    "vgg13": 133_047_848,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    # VGG-16 with one 3x3 in each of the last three groups made 1x1.
    "vgg-c": 138_357_544 - 8 * (256**2 + 2 * 512**2),
    # torchvision's num_params.
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    # BVLC GoogLeNet's deploy.prototxt, as counted by Netscope.
    "googlenet": 6_998_552,
    # torchvision's inception_v3 with aux_logits=False: its num_params, 27,161,264, less 3,326,696 of AuxLogits.
    "inception-v3": 23_834_568,
    # torchvision's num_params.
    "mobilenet-v2": 3_504_872,
    # Not published; weights and biases of the filters in Ronneberger et al., Figure 1: five pairs of 3x3 down, four
    # 2x2 up-convolutions, four pairs up and the 1x1.
    "unet": sum(
        (9 * i + 1) * o + (9 * o + 1) * o
        for i, o in [(1, 64), (64, 128), (128, 256), (256, 512), (512, 1024)]
    )
    + sum((4 * 2 * o + 1) * o + (9 * 2 * o + 1) * o + (9 * o + 1) * o for o in (512, 256, 128, 64))
    + (64 + 1) * 2,
    # Released weights: Hugging Face's num_parameters of gpt2, bert-large-uncased (BertForMaskedLM), Llama-2-7b and Llama-3.
    "gpt2": 124_439_808,
    "bert-large": 335_174_458,
    "llama2-7b": 6_738_415_616,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    # torchvision's num_params.
    "vit-b16": 86_567_656,
    # Hugging Face's num_parameters of Mixtral-8x7B-v0.1; 47B in Jiang et al., section 2.1.
    "mixtral-8x7b": 46_702_792_704,
    # 174,600 M in Brown et al., Table D.1, of 96 blocks of 12 h^2 + 13 h, the two embeddings and the last norm.
    "gpt3-175b": 96 * (12 * 12288**2 + 13 * 12288) + (50257 + 2048 + 2) * 12288,
}

TRANSFORMERS = {
    "gpt2",
    "bert-large",
    "gpt3-175b",
    "llama2-7b",
    "llama3-8b",
    "llama3-70b",
    "llama3-405b",
    "mixtral-8x7b",
}

MILLION_PARAMETERS = {"vgg-a": 133, "vgg-b": 133, "vgg-c": 134, "vgg-d": 138, "vgg-e": 144}
"""Simonyan and Zisserman, Table 2."""

GIGA_MACS = {
    "vgg11": 7.609,
    "vgg13": 11.308,
    "vgg16": 15.470,
    "vgg19": 19.632,
    "resnet18": 1.814,
    "resnet34": 3.664,
    # He et al. have 3.8, 7.6 and 11.3 for these three: their stride is on the 1x1, torchvision's on the 3x3.
    "resnet50": 4.089,
    "resnet101": 7.801,
    "resnet152": 11.514,
    "inception-v3": 5.713,
    "vit-b16": 17.564,
    # Sandler et al., Table 4, have 300 M.
    "mobilenet-v2": 0.301,
}
"""A sample's multiply-accumulates, torchvision's _ops: to three decimals."""

GOOGLENET_MEGA_MACS = [
    pytest.param("conv1_", 34, marks=pytest.mark.xfail(strict=True, reason="7*7*3*64 * 112*112 is 118 M")),
    ("conv2_", 360),
    ("inception_3a", 128),
    ("inception_3b", 304),
    ("inception_4a", 73),
    ("inception_4b", 88),
    ("inception_4c", 100),
    ("inception_4d", 119),
    ("inception_4e", 170),
    pytest.param(
        "inception_5a", 54, marks=pytest.mark.xfail(strict=True, reason="the row's filters give 51 M")
    ),
    ("inception_5b", 71),
    ("classifier", 1),
]
"""Szegedy et al. 2015, Table 1, column ops."""

DEPTH = {
    "alexnet": 8,
    "alexnet-2012": 8,
    "vgg-f": 8,
    "vgg11": 11,
    "vgg13": 13,
    "vgg-c": 16,
    "vgg16": 16,
    "vgg19": 19,
    "googlenet": 22,
    "resnet18": 18,
    "resnet34": 34,
    "resnet50": 50,
    "resnet101": 101,
    "resnet152": 152,
    # Ronneberger et al., section 2: "In total the network has 23 convolutional layers."
    "unet": 23,
}
"""Layers with weights one behind the other: what the names and the papers count."""

SHAPES = [
    # Caffe's pooling rounds up: 32, 16, 8, 4.
    ("cifar-c", "conv1", (32, 32, 32)),
    ("cifar-c", "pool3", (64, 4, 4)),
    # Krizhevsky et al., section 3.5.
    ("alexnet", "conv1", (96, 55, 55)),
    ("alexnet", "conv5", (256, 13, 13)),
    ("alexnet", "pool5", (256, 6, 6)),
    # Mori et al.
    ("vgg-f", "conv1", (64, 54, 54)),
    ("vgg-f", "pool5", (256, 6, 6)),
    # He et al., Table 1; the names are torchvision's.
    ("resnet18", "layer2.0.downsample.0", (128, 28, 28)),
    ("resnet34", "layer4.rest.1.add", (512, 7, 7)),
    ("resnet50", "layer2.0.conv2", (128, 28, 28)),
    ("resnet50", "layer4.rest.1.add", (2048, 7, 7)),
    # Szegedy et al. 2015, Table 1.
    ("googlenet", "pool1_3x3_s2", (64, 56, 56)),
    ("googlenet", "inception_4e.output", (832, 14, 14)),
    ("googlenet", "inception_5b.output", (1024, 7, 7)),
    # The comments of torchvision's inception.py.
    ("inception-v3", "maxpool2", (192, 35, 35)),
    ("inception-v3", "Mixed_5d.concat", (288, 35, 35)),
    ("inception-v3", "Mixed_7a.concat", (1280, 8, 8)),
    ("inception-v3", "Mixed_7c.concat", (2048, 8, 8)),
    # Sandler et al., Table 2: the input of each row is the output of the one before.
    ("mobilenet-v2", "conv1", (32, 112, 112)),
    ("mobilenet-v2", "features3.add", (24, 56, 56)),
    ("mobilenet-v2", "features10.add", (64, 14, 14)),
    ("mobilenet-v2", "features17.2", (320, 7, 7)),
    ("mobilenet-v2", "features18.0", (1280, 7, 7)),
    # Ronneberger et al., Figure 1: the numbers beside the boxes.
    ("unet", "down1.conv2", (64, 568, 568)),
    ("unet", "down4.conv2", (512, 64, 64)),
    ("unet", "bottom.conv2", (1024, 28, 28)),
    ("unet", "concat4", (1024, 56, 56)),
    ("unet", "up4.conv2", (512, 52, 52)),
    ("unet", "up1.conv2", (64, 388, 388)),
    ("unet", "classifier", (2, 388, 388)),
    # Dosovitskiy et al., section 3.1: N = H W / P^2 patches and the class token.
    ("vit-b16", "conv_proj", (196, 768)),
    ("vit-b16", "class_token", (197, 768)),
    ("vit-b16", "first", (1, 768)),
]


def macs_below(graph: LayerGraph, prefix: str) -> int:
    """A sample's multiply-accumulates in the layers whose names start so."""
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


@pytest.mark.parametrize(("model", "millions"), MILLION_PARAMETERS.items())
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


@pytest.mark.parametrize(("model", "published"), GIGA_MACS.items())
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


@pytest.mark.parametrize(("row", "published"), GOOGLENET_MEGA_MACS)
def test_googlenet_table_1(row: str, published: int) -> None:
    assert macs_below(load_model("googlenet"), row) / 1e6 == pytest.approx(published, abs=1)


def test_googlenet_macs() -> None:
    """The rows of Table 1 add up to 1,502 M; with what the two rows that are wrong should say, 1,583 M."""
    published = 1502 + (118 - 34) + (51 - 54)
    assert load_model("googlenet").macs() / 1e6 == pytest.approx(published, abs=1)


@pytest.mark.parametrize(("model", "published"), DEPTH.items())
def test_depth(model: str, published: int) -> None:
    assert depth(load_model(model)) == published


@pytest.mark.parametrize(("model", "name", "shape"), SHAPES)
def test_shape(model: str, name: str, shape: tuple[int, ...]) -> None:
    layer = next(layer for layer in load_model(model).layers if layer.name == name)
    assert tuple(layer.shape.values()) == shape
