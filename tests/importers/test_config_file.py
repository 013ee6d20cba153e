"""Hugging Face's configs as model files."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import hypar
from hypar.importers.formats import framework_of
from hypar.registry import data_file
from tests.importers.plans import FOLDER, import_network
from tests.kit import run

CONFIGS: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "configs.yaml").read_text(encoding="utf-8"))

PARAMETERS = {
    # Hugging Face's num_parameters of the released weights.
    "gpt2": 124_439_808,
    "bert-large-uncased": 335_174_458,
    "Llama-2-7b-hf": 6_738_415_616,
    "Meta-Llama-3-8B": 8_030_261_248,
    "Meta-Llama-3-70B": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800,
    "Mistral-7B-v0.1": 7_241_732_096,
    "Mixtral-8x7B-v0.1": 46_702_792_704,
    "Qwen2-7B": 7_615_616_512,
    # Of Hugging Face's module; published as 671 B, without the layer that predicts a further token.
    "DeepSeek-V3": 671_026_404_352,
}

SHIPPED = {
    "gpt2": "gpt2", "bert-large-uncased": "bert-large", "Llama-2-7b-hf": "llama2-7b",
    "Meta-Llama-3-8B": "llama3-8b", "Meta-Llama-3-70B": "llama3-70b", "Llama-3.1-405B": "llama3-405b",
    "Mixtral-8x7B-v0.1": "mixtral-8x7b",
}  # fmt: skip
"""The model that comes with hypar, by config."""

SEQUENCE = {"Llama-3.1-405B": 8192}
"""Positions of the shipped model where they are not the config's largest."""


def write(folder: Path, config: Any, text: str | None = None) -> str:
    file = folder / "config.json"
    file.write_text(json.dumps(config) if text is None else text, encoding="utf-8")
    return str(file)


def parameters(name: str) -> int:
    """The parameters of a published config, from those of networks of few layers."""
    config = CONFIGS[name]
    first = config.get("first_k_dense_replace", 0)
    layers = config["n_layer" if "n_layer" in config else "num_hidden_layers"]
    one, two = few(name, first + 1).num_parameters, few(name, first + 2).num_parameters
    return int(one + (layers - first - 1) * (two - one))


def few(name: str, layers: int = 1, **changed: Any) -> hypar.LayerGraph:
    config = CONFIGS[name]
    if name == "DeepSeek-V3":
        pytest.importorskip("transformers", reason="this family is read through transformers")
    key = "n_layer" if "n_layer" in config else "num_hidden_layers"
    return hypar.from_config({**config, key: layers, **changed})


SLOW = [pytest.param(name, marks=pytest.mark.slow) if name == "DeepSeek-V3" else name for name in CONFIGS]


@pytest.mark.parametrize("name", SLOW)
def test_parameters_are_those_that_are_published(name: str) -> None:
    assert parameters(name) == PARAMETERS[name]


@pytest.mark.slow
def test_a_position_of_deepseek_v3_sees_the_parameters_that_are_published() -> None:
    """DeepSeek-AI, DeepSeek-V3 Technical Report (2024): 671 B parameters, of which 37 B are activated for each token."""
    assert round(PARAMETERS["DeepSeek-V3"] / 1e9) == 671
    expert = 3 * 7168 * 2048
    routed, norms = 61 - 3, 61 * (2 * 7168 + 1536 + 512) + 7168
    activated = PARAMETERS["DeepSeek-V3"] - routed * (256 - 8) * expert
    assert 37 <= activated / 1e9 < 38
    # As many positions as fill a slot of each expert; a table is looked up, and what experts made is weighted.
    positions = 256 // 8
    attention = 61 * 128 * (128 + 64 + 128) * positions / 2
    products = activated - norms - 129280 * 7168 + attention + routed * 8 * 7168
    assert hypar.from_config(CONFIGS["DeepSeek-V3"], sequence=positions).macs() == positions * products


@pytest.mark.parametrize("name", SHIPPED)
def test_the_file_is_the_one_written_by_hand(name: str, tmp_path: Path) -> None:
    file = write(tmp_path, CONFIGS[name])
    found = import_network("config", file, (), batch=32, sequence=SEQUENCE.get(name))
    hand = data_file("models", SHIPPED[name]).read_text(encoding="utf-8")
    if name == "Llama-2-7b-hf":  # released in float16, trained in bfloat16
        hand = hand.replace("dtype: bfloat16", "dtype: float16")
    assert found.text().splitlines()[1:] == hand.splitlines()[1:]
    assert yaml.safe_load(found.text()) == found.content
    assert found.notes == (f"{PARAMETERS[name]:,} parameters",)


FOUR = {"num_hidden_layers": 4}
DENSE, SPARSE = 3 * 7168 * 18432, 257 * 3 * 7168 * 2048 + 256 * 7168
"""Parameters of a layer of DeepSeek-V3 without experts and with them."""

CHANGED: dict[str, tuple[str, dict[str, Any], int]] = {
    "tied": ("Meta-Llama-3-8B", {"tie_word_embeddings": True}, -128256 * 4096),
    "not tied": ("gpt2", {"tie_word_embeddings": False}, 50257 * 768),
    "a table of its own": ("bert-large-uncased", {"tie_word_embeddings": False}, 30522 * 1024),
    "types": ("bert-large-uncased", {"type_vocab_size": 4}, 2 * 1024),
    "positions": ("gpt2", {"n_positions": 2048}, 1024 * 768),
    "a narrow perceptron": ("gpt2", {"n_inner": 768}, -3 * 768 * (2 * 768 + 1)),
    "wide heads": ("Mistral-7B-v0.1", {"head_dim": 256}, 128 * 4096 * (32 + 8 + 8 + 32)),
    "keys of all heads": ("Mistral-7B-v0.1", {"num_key_value_heads": None}, 2 * 24 * 128 * 4096),
    "one head of keys": ("Qwen2-7B", {"num_key_value_heads": 1}, -2 * 3 * 128 * (3584 + 1)),
    "more experts": ("Mixtral-8x7B-v0.1", {"num_local_experts": 9}, 3 * 4096 * 14336 + 4096),
    "features of values": ("DeepSeek-V3", {"v_head_dim": 64}, -64 * 128 * (512 + 7168)),
    "rotated features": ("DeepSeek-V3", {"qk_rope_head_dim": 32}, -32 * (128 * 1536 + 7168)),
    "plain features": ("DeepSeek-V3", {"qk_nope_head_dim": 64}, -64 * 128 * (1536 + 512)),
    "queries of all features": ("DeepSeek-V3", {"q_lora_rank": None},
        128 * 192 * (7168 - 1536) - 1536 * 7168 - 1536),
    "latent biases": ("DeepSeek-V3", {"attention_bias": True}, 1536 + 512 + 64 + 7168),
    "shared experts": ("DeepSeek-V3", FOUR | {"n_shared_experts": 3}, 2 * 3 * 7168 * 2048),
    "routed experts": ("DeepSeek-V3", FOUR | {"n_routed_experts": 264}, 8 * (3 * 7168 * 2048 + 7168)),
    "narrow experts": ("DeepSeek-V3", FOUR | {"moe_intermediate_size": 1024}, -257 * 3 * 7168 * 1024),
    "two dense layers": ("DeepSeek-V3", FOUR | {"first_k_dense_replace": 2}, SPARSE - DENSE),
    "dense layers alone": ("DeepSeek-V3", FOUR | {"first_k_dense_replace": 9}, DENSE - SPARSE),
    "no dense layer": ("DeepSeek-V3", FOUR | {"first_k_dense_replace": 0}, 3 * (SPARSE - DENSE)),
    "more positions": ("Llama-3.1-405B", {"max_position_embeddings": 2**20}, 0),
}  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.slow) if row[0] == "DeepSeek-V3" else case
        for case, row in CHANGED.items()
    ],
)
def test_every_key_that_changes_sizes_is_read(case: str) -> None:
    name, changed, more = CHANGED[case]
    before = few(name, changed.get("num_hidden_layers", 1))
    assert few(name, **changed).num_parameters - before.num_parameters == more


def test_number_formats_and_functions_are_read() -> None:
    assert few("gpt2").dtype == "float32"
    assert few("gpt2", dtype="bfloat16").dtype == "bfloat16"
    ops = {layer.op_name for layer in few("gpt2", activation_function="relu").layers}
    assert ("relu" in ops, "gelu" in ops) == (True, False)


def said_of(file: str, *options: str) -> str:
    return run("import", "config", file, *options).output


def test_the_command_says_what_the_file_does_not(tmp_path: Path) -> None:
    config = {**CONFIGS["Mistral-7B-v0.1"], "num_hidden_layers": 1}
    text = said_of(write(tmp_path, config))
    assert "recognised 100 % of " in text
    assert "sliding_window: 4,096 is not in the model file, in which each of 32,768 positions" in text
    assert "sliding_window" not in said_of(write(tmp_path, config), "--sequence", "4096")
    note = "architectures: found 'BertModel', written with the head of ForMaskedLM"
    assert note in said_of(write(tmp_path, {**CONFIGS["bert-large-uncased"], "architectures": ["BertModel"]}))
    written = str(tmp_path / "net.yaml")
    note = "n_positions: of 1,024 positions the first 128 are trained"
    assert note in said_of(write(tmp_path, CONFIGS["gpt2"]), "--sequence", "128", "-o", written)
    network = hypar.load_model(written)
    assert network.num_parameters == PARAMETERS["gpt2"] - (1024 - 128) * 768


@pytest.mark.slow
def test_any_other_family_is_read_through_transformers(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is an extra")
    library: Any = pytest.importorskip("transformers", reason="transformers is a package for tests")
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    config = {
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "intermediate_size": 96,
        "vocab_size": 300,
        **sizes,
    }
    found = import_network("config", write(tmp_path, config), (), sequence=32)
    own = library.Qwen3ForCausalLM(library.Qwen3Config(**{**config, "model_type": None}))
    assert found.graph().num_parameters == sum(held.numel() for held in own.parameters())
    assert found.coverage.shares == (1.0, 1.0)
    assert ", repeat: 2}" in found.text()
    config = {**CONFIGS["DeepSeek-V3"], "num_hidden_layers": 4}
    note = "num_nextn_predict_layers: 1 not in the model file, which is the main model alone"
    assert note in said_of(write(tmp_path, config), "--sequence", "64")


def test_the_kind_of_a_source_follows_from_its_name(tmp_path: Path) -> None:
    config, model = tmp_path / "config.json", tmp_path / "model.json"
    config.write_text('{"model_type": "gpt2"}', encoding="utf-8")
    model.write_text('{"source": "made up", "layers": []}', encoding="utf-8")
    kinds = {
        str(config): "config",
        str(model): None,
        "a.onnx": "onnx",
        "vgg16": None,
        "models/net.yaml": None,
    }
    assert {source: framework_of(source) for source in kinds} == kinds
