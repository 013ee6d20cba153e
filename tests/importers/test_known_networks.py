"""The networks of torchvision, timm and transformers: what is recognised, and four equal to models that come with hypar."""

import importlib.util
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import hypar
from hypar import LayerGraph
from tests.importers.plans import facts, import_network
from tests.memory import own_peak

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def pytorch() -> Any:
    """PyTorch, imported where tests run and not where they are collected."""
    return pytest.importorskip("torch", reason="PyTorch is an extra")


def package(name: str) -> Any:
    """A package of networks; torchvision's own operators are missing in a build for another PyTorch."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    try:
        return import_module(name)
    except RuntimeError:
        for operator in ("nms", "qnms"):
            pytorch().library.define(
                f"torchvision::{operator}", "(Tensor boxes, Tensor scores, float most) -> Tensor"
            )
        return import_module(name)


Built = tuple[Any, tuple[Any, ...]]


def vision(name: str, size: int = 224, **options: Any) -> Callable[[], Built]:
    def build() -> Built:
        module = getattr(package("torchvision").models, name)(**options)
        return pytorch().nn.Sequential(module, pytorch().nn.Softmax(1)), (pytorch().empty(2, 3, size, size),)

    return build


def classifier(library: str, name: str) -> Callable[[], Built]:
    def build() -> Built:
        own = package(library)
        module = own.create_model(name) if library == "timm" else getattr(own.models, name)()
        return with_loss(module), (pytorch().empty(2, 3, 224, 224), tokens())

    return build


def tokens(*sizes: int) -> Any:
    return pytorch().zeros(2, *sizes, dtype=pytorch().int64)


def with_loss(model: Any, *names: str) -> Any:
    """A model behind its loss, whose inputs may be given by names."""
    torch = pytorch()

    class Loss(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *read: Any) -> Any:
            *given, labels = read
            found = self.model(**dict(zip(names, given, strict=True))) if names else self.model(*given)
            scores = getattr(found, "logits", found)
            return torch.nn.functional.cross_entropy(scores.flatten(0, -2), labels.flatten())

    return Loss()


def language(model: str, config: str, *, length: int, **options: Any) -> Callable[[], Built]:
    def build() -> Built:
        library = package("transformers")
        own_format = getattr(pytorch(), options.get("dtype", "float32"))
        module = getattr(library, model)._from_config(getattr(library, config)(**options), dtype=own_format)
        module.config.use_cache = False
        return with_loss(module), (tokens(length), tokens(length))

    return build


def transformers_vit() -> Built:
    library = package("transformers")
    config = library.ViTConfig(num_labels=1000)
    return with_loss(library.ViTForImageClassification(config)), (pytorch().empty(2, 3, 224, 224), tokens())


def t5() -> Built:
    """T5, an encoder and a decoder of one table, with its loss."""
    library = package("transformers")
    config = library.T5Config(d_model=512, d_ff=2048, num_layers=6, num_heads=8, use_cache=False)
    t5 = library.T5ForConditionalGeneration(config)
    return with_loss(t5, "input_ids", "decoder_input_ids"), (tokens(512), tokens(512), tokens(512))


def whisper() -> Built:
    """Whisper, with convolutions of sound before its encoder, and its loss."""
    library = package("transformers")
    sizes = {"encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536}
    sizes |= {key.replace("encoder", "decoder"): size for key, size in sizes.items()}
    config = library.WhisperConfig(d_model=384, use_cache=False, **sizes)
    model = library.WhisperForConditionalGeneration(config)
    example = (pytorch().empty(2, 80, 3000), tokens(64), tokens(64))
    return with_loss(model, "input_features", "decoder_input_ids"), example


MIXTRAL = {"vocab_size": 32000, "max_position_embeddings": 32768, "dtype": "bfloat16"}
QWEN_MOE = {"num_hidden_layers": 4, "num_experts": 16, "norm_topk_prob": True}
DEEPSEEK = {
    "num_hidden_layers": 4, "n_routed_experts": 16, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 4,
}  # fmt: skip


def deepseek(attention: str) -> Callable[[], Built]:
    options = {**DEEPSEEK, "attn_implementation": attention}
    return language("DeepseekV3ForCausalLM", "DeepseekV3Config", length=2048, **options)


def gpt2(attention: str = "sdpa") -> Callable[[], Built]:
    """GPT-2 as published, without dropout."""
    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    return language("GPT2LMHeadModel", "GPT2Config", length=1024, attn_implementation=attention, **rates)


ROWS: dict[str, Callable[[], Built]] = {
    "resnet50": vision("resnet50"),
    "vgg16": vision("vgg16"),
    "inception_v3": vision("inception_v3", 299, aux_logits=False, init_weights=False),
    "densenet121": vision("densenet121"),
    "mobilenet_v2": vision("mobilenet_v2"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "efficientnet_b0": vision("efficientnet_b0"),
    "convnext_tiny": vision("convnext_tiny"),
    "mobilenet_v3_large": vision("mobilenet_v3_large"),
    "vit_b_16": classifier("torchvision", "vit_b_16"),
    "swin_t": vision("swin_t"),
    "timm vit_base_patch16_224": classifier("timm", "vit_base_patch16_224"),
    "timm deit_base_distilled": classifier("timm", "deit_base_distilled_patch16_224"),
    "vit-base": transformers_vit,
    "gpt2": gpt2(),
    "gpt2, attention written out": gpt2("eager"),
    "bert-base": language("BertForMaskedLM", "BertConfig", length=512),
    "llama-7b": language("LlamaForCausalLM", "LlamaConfig", length=2048),
    "mistral-7b": language("MistralForCausalLM", "MistralConfig", length=2048),
    "qwen2-7b": language("Qwen2ForCausalLM", "Qwen2Config", length=2048),
    "t5-small": t5,
    "whisper-tiny": whisper,
    "mixtral-8x7b": language("MixtralForCausalLM", "MixtralConfig", length=32768, **MIXTRAL),
    "qwen3-moe": language("Qwen3MoeForCausalLM", "Qwen3MoeConfig", length=2048, **QWEN_MOE),
    "deepseek-v3": deepseek("sdpa"),
    "deepseek-v3, attention written out": deepseek("eager"),
}

MOSTLY = "swin_t"
"""A network of which something of little weight is opaque."""

COPIED = {"t5-small": 32128 * 512 + 10 * 32 * 8}
"""Trained numbers that several layers share and each has in the model file: T5's table of words, which both its stacks read, and
its tables of positions, of which each stack has one for six layers."""

SHIPPED = {
    "resnet50": "resnet50",
    "vgg16": "vgg16",
    "inception_v3": "inception-v3",
    "vit_b_16": "vit-b16",
    "timm vit_base_patch16_224": "vit-b16",
    "vit-base": "vit-b16",
    "mixtral-8x7b": "mixtral-8x7b",
    "gpt2": "gpt2",
    "gpt2, attention written out": "gpt2",
}


def counted(network: LayerGraph, batch: int) -> int:
    """Return the operations as PyTorch counts them: a causal attention as a full one, and no weighted sum of experts."""
    found = 0
    for layer in network.layers:
        nest = layer.nest(batch)
        if layer.macs(batch) and nest.fraction and layer.op_name != "combine":
            found += round(2 * layer.macs(batch) / nest.fraction)
    return found


def counted_by_pytorch(build: Callable[[], Built]) -> int:
    """Return the operations of a run without data, as PyTorch counts them.

    Attention and experts are computed in products of matrices, as others may run by kernels that are not counted.
    """
    counter_of = import_module("torch.utils.flop_counter").FlopCounterMode
    fake = import_module("torch._subclasses.fake_tensor").FakeTensorMode

    def run() -> int:
        module, example = build()
        for part in module.modules():
            if hasattr(part, "set_attn_implementation"):
                part.set_attn_implementation("eager")
                with suppress(ValueError):  # it has no experts
                    part.set_experts_implementation("batched_mm")
        with counter_of(display=False) as counter:
            module.train()(*example)
        return int(counter.get_total_flops())

    try:
        with pytorch().device("meta"):
            return run()
    except RuntimeError:  # its masks have values that it reads
        with fake(allow_non_fake_inputs=True):
            return run()


def read(module: Any, example: Any, *, partial: bool, batch: int = 256) -> Any:
    """Import a network of PyTorch."""
    from hypar.importers.imported import imported  # noqa: PLC0415
    from hypar.importers.torch_module import capture  # noqa: PLC0415

    return imported(capture(module, example, name="net", where="net"), batch=batch, partial=partial)


@pytest.mark.parametrize("name", ROWS)
def test_all_operations_and_parameters_are_recognised(name: str) -> None:
    pytorch()
    build = ROWS[name]
    with pytorch().device("meta"):
        module, example = build()
    found = read(module, example, partial=True)
    network = found.graph()
    assert found.coverage.shares == (1.0, 1.0)
    assert counted(network, 2) == found.coverage.flop
    assert counted(network, 2) == counted_by_pytorch(build)
    if name != MOSTLY:
        assert found.coverage.opaque == {}
        own = sum(held.numel() for held in module.parameters())
        assert network.num_parameters == own + COPIED.get(name, 0)
    if name in SHIPPED:
        for strategy in ("dp", "hypar"):
            assert facts(network, strategy=strategy) == facts(
                hypar.load_model(SHIPPED[name]), strategy=strategy
            )


def test_deepseek_v3_is_the_network_of_its_config() -> None:
    torch = pytorch()
    with torch.device("meta"):
        module, example = ROWS["deepseek-v3"]()
    own = read(module, example, partial=False).graph()
    config = {**module.model.config.to_dict(), "dtype": "float32"}
    for strategy in ("dp", "hypar"):
        found = facts(hypar.from_config(config, sequence=2048), strategy=strategy)
        assert facts(own, strategy=strategy) == found


def imported_405b() -> tuple[int, bool, float]:
    """Import Llama-3 405B: its parameters, whether its blocks are one, and the most megabytes of the process."""
    torch, library = pytorch(), package("transformers")
    sizes = {
        "hidden_size": 16384,
        "intermediate_size": 53248,
        "num_attention_heads": 128,
        "num_key_value_heads": 8,
    }
    config = library.LlamaConfig(vocab_size=128256, num_hidden_layers=126, use_cache=False, **sizes)
    with torch.device("meta"):
        module, example = library.LlamaForCausalLM(config), (tokens(8192),)
    found = read(module, example, partial=False, batch=32)
    parameters = found.graph().num_parameters
    peak = own_peak()
    return parameters, ", repeat: 126}" in found.text(), peak


def test_llama3_405b_takes_a_gigabyte_without_weights() -> None:
    pytorch()
    package("transformers")
    # In a process of its own: a process keeps the most memory that any test before took.
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        parameters, one_block, peak = alone.submit(imported_405b).result()
    assert parameters == 405_853_388_800
    assert one_block
    assert peak < 1024


# As ONNX files that PyTorch writes, their weights beside them


SMALL = {"num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 512, "num_key_value_heads": 8}

FILES: dict[str, tuple[Callable[[], Built], int, str | None]] = {
    # The exporter folds batch normalisations into convolutions.
    "resnet50": (ROWS["resnet50"], 18, None),
    "vit_b_16": (ROWS["vit_b_16"], 18, "vit-b16"),
    "gpt2": (ROWS["gpt2"], 18, "gpt2"),
    "gpt2, opset 23": (ROWS["gpt2"], 23, "gpt2"),
    "bert, two layers": (
        language("BertForMaskedLM", "BertConfig", length=128, num_hidden_layers=2),
        18,
        None,
    ),
    "llama, two layers": (language("LlamaForCausalLM", "LlamaConfig", length=128, **SMALL), 18, None),
}
"""How to build a network, the version of the operators, and the model that comes with hypar."""


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_all_of_a_file_is_recognised(name: str, tmp_path: Path) -> None:
    torch = pytorch()
    pytest.importorskip("onnxscript", reason="torch.onnx needs onnxscript")
    build, version, shipped = FILES[name]
    module, example = build()
    for held in module.parameters():
        # Tensors of equal values would be stored as one.
        held.data.normal_()
    file = tmp_path / "net.onnx"
    torch.onnx.export(module.train(), example, file, dynamo=True, opset_version=version, external_data=True)
    found = import_network("onnx", str(file), (), partial=True)
    network = found.graph()
    assert found.coverage.shares[0] == 1.0
    assert found.coverage.shares[1] > 0.999
    assert file.stat().st_size < 2**23
    if shipped:
        assert facts(network, strategy="hypar") == facts(hypar.load_model(shipped), strategy="hypar")
