"""Import of a Hugging Face config: a shipped model's family by that model's file, any other through transformers."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from hypar.errors import ModelError, OptionError, shown, suggestion
from hypar.files.text import read_json
from hypar.importers.formats import BATCH, EXAMPLE, one_line, package
from hypar.importers.imported import Coverage, Imported, imported
from hypar.importers.torch_module import capture
from hypar.importers.trace import Node
from hypar.network.graph import LayerGraph, load_model
from hypar.network.modelfile import MOST_REPEATS
from hypar.network.training import DTYPE_BYTES
from hypar.ops.dims import LARGEST
from hypar.registry import data_file

FAMILIES = {
    "gpt2": ("gpt2", "LMHeadModel"),
    "bert": ("bert-large", "ForMaskedLM"),
    "llama": ("llama3-8b", "ForCausalLM"),
    "mistral": ("llama3-8b", "ForCausalLM"),
    "mixtral": ("mixtral-8x7b", "ForCausalLM"),
    "qwen2": ("llama3-8b", "ForCausalLM"),
}
"""By ``model_type``: the shipped model whose file says the family, and how the name of its architecture ends."""

SOURCE = "imported from a Hugging Face config of model_type {}"

KEYS = {
    "hidden": ("n_embd", "hidden_size"),
    "heads": ("n_head", "num_attention_heads"),
    "kv_heads": ("num_key_value_heads",),
    "ff": ("n_inner", "intermediate_size"),
    "types": ("type_vocab_size",),
    "experts": ("num_local_experts",),
    "vocab": ("vocab_size",),
    "sequence": ("n_positions", "max_position_embeddings"),
    "repeat": ("n_layer", "num_hidden_layers"),
    "count": ("num_experts_per_tok",),
    "op": ("activation_function", "hidden_act"),
    "dtype": ("dtype", "torch_dtype"),
}
"""Keys that say dims and fields of a model file, of which a config has one."""

FUNCTIONS = {
    **dict.fromkeys(("gelu", "gelu_fast", "gelu_new", "gelu_pytorch_tanh"), "gelu"),
    "relu": "relu",
    **dict.fromkeys(("silu", "swish"), "silu"),
}

SIZES = range(1, LARGEST + 1)


class _Config:
    """A config of a shipped model's family, for some positions or as many as it allows; keys that change no size are not read.

    Its positions are ``learned`` where they are a trained table; ``most`` are allowed, and a sample has ``length`` of them.
    """

    def __init__(self, data: Mapping[str, Any], where: str, sequence: int | None) -> None:
        self.data = {key: value for key, value in data.items() if value is not None}
        self.where, self.family = where, data["model_type"]
        template, self.head = FAMILIES[self.family]
        self.shipped = yaml.safe_load(data_file("models", template).read_text(encoding="utf-8"))
        self.learned = any(entry.get("op") == "position" for entry in self.shipped["layers"])
        only = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
        for key, value in only.items():
            self.read(key, [value], value)
        self.most: int = self.read("sequence", SIZES)
        self.length = self.most if sequence is None else sequence
        largest = self.most if self.learned else LARGEST
        if sequence is not None and not 1 <= sequence <= largest:
            key = f", the {self.key('sequence')} of the config" if self.learned else ""
            raise OptionError("sequence", f"found {sequence:,}", f"a whole number from 1 to {largest:,}{key}")

    def key(self, name: str) -> str:
        """Return the key that says a dim or a field, of several that of the family if none is given."""
        keys = KEYS.get(name, (name,))
        return next((key for key in keys if key in self.data), keys[0 if self.family == "gpt2" else -1])

    def read(self, name: str, allowed: Sequence[Any], default: Any = None) -> Any:
        """Return the value of a key, one of some; an error if it is not given and there is no default."""
        value = self.data.get(key := self.key(name), default)
        if type(value) is not type(allowed[0]) or value not in allowed:
            sizes = f"a whole number from 1 to {allowed[-1]:,}" if isinstance(allowed, range) else ""
            found = f"found {shown(value)}"
            raise ModelError(f"{self.where}: {key}", found, sizes or ", ".join(map(shown, allowed)))
        return value

    def dims(self) -> dict[str, int]:
        """Return the dims of the shipped file, without the heads that share keys where each has its own."""
        hidden, heads = self.read("hidden", SIZES), self.read("heads", SIZES)
        own = {"hidden": hidden, "heads": heads, "kv_heads": self.read("kv_heads", SIZES, heads)}
        parts = [("heads", "kv_heads"), *([] if "head_dim" in self.data else [("hidden", "heads")])]
        for whole, part in parts:
            if own[whole] % own[part]:
                found = f"{self.key(part)} {own[part]:,} does not divide {self.key(whole)} {own[whole]:,}"
                raise ModelError(self.where, found)
        own |= {"group": heads // own["kv_heads"], "head_dim": hidden // heads}
        own |= {"ff": 4 * hidden} if self.family == "gpt2" else {}
        sizes = {name: self.read(name, SIZES, own.get(name)) for name in self.shipped["dims"]}
        sizes["sequence"] = self.length
        if not self.learned and sizes["head_dim"] % 2:
            allowed = "an even number, whose halves are rotated"
            raise ModelError(self.where, f"heads of {sizes['head_dim']:,} features", allowed)
        return {name: size for name, size in sizes.items() if (name, size) != ("group", 1)}

    def entry(self, shipped: Mapping[str, Any], dims: Mapping[str, int]) -> dict[str, Any]:
        found = dict(shipped)
        for field, most in (("repeat", MOST_REPEATS), ("count", dims.get("experts", 1))):
            if field in found:
                found[field] = self.read(field, range(1, most + 1))
        if found.get("op") in FUNCTIONS.values():
            found["op"] = FUNCTIONS[self.read("op", [*FUNCTIONS], found["op"])]
        for side in {"in", "out"} & {*found}:
            if isinstance(found[side], list):
                found[side] = [dim for dim in found[side] if dim in dims]
        # Of biases that the shipped file does not have Llama's config says some, and Qwen2 has some always.
        keys = {"attention_bias": ("q", "k", "v", "o"), "mlp_bias": ("gate", "up", "down")}
        said = {name for key, own in keys.items() if self.read(key, [False, True], False) for name in own}
        if found.get("name") in {"llama": said, "qwen2": {*"qkv"}}.get(self.family, ()):
            del found["bias"]
        if found.get("name") == "head":
            found.pop("weight", None)
            if self.read("tie_word_embeddings", [False, True], self.learned):
                tables = (one["name"] for one in self.shipped["layers"] if one.get("over") == "vocab")
                found["weight"] = next(tables)
        return found

    def content(self, batch: int) -> dict[str, Any]:
        dims = self.dims()
        for part in (self.shipped, *self.shipped["blocks"].values()):
            part["layers"] = [self.entry(entry, dims) for entry in part["layers"]]
        found = {**self.shipped, "source": SOURCE.format(self.family), "batch": batch, "dims": dims}
        found["dtype"] = self.read("dtype", [*DTYPE_BYTES], "float32")
        return {key: value for key, value in found.items() if (key, value) != ("dtype", "float32")}

    def notes(self) -> Iterator[str]:
        """Yield lines on what the model file says otherwise than the config."""
        for name in self.data["architectures"]:
            if not name.endswith(self.head):
                yield f"architectures: found {shown(name)}, written with the head of {self.head}"
        if self.learned and self.length < self.most:
            yield f"{self.key('sequence')}: of {self.most:,} positions the first {self.length:,} are trained"
        # Qwen2 has a window where its config says that it is used.
        used = self.data.get("use_sliding_window") if self.family == "qwen2" else self.family != "llama"
        if used and (window := self.read("sliding_window", SIZES, LARGEST)) < self.length:
            attends = f"each of {self.length:,} positions attends to all before it"
            yield f"sliding_window: {window:,} is not in the model file, in which {attends}"


def from_config(
    config: str | Path | Mapping[str, Any],
    *,
    batch: int | None = None,
    sequence: int | None = None,
    name: str | None = None,
) -> LayerGraph:
    """Read a Hugging Face config as a network, without weights.

    The families gpt2, bert, llama, mistral, mixtral and qwen2 need no other package; any other family that PyTorch and
    transformers know is built by these on the meta device and captured.

    Args:
        config: path of a ``config.json``, or what it says.
        batch: samples in a mini-batch, if not 256.
        sequence: positions of a sample, if not the most that the config allows.
        name: name of the network; the config's ``model_type`` if not given.

    Raises:
        InputError: the file cannot be read, its family is not known, or a key is missing or wrong.
    """
    found = read_config(config, batch=BATCH if batch is None else batch, sequence=sequence)
    return (found if name is None else replace(found, name=name)).graph()


def read_config(
    config: str | Path | Mapping[str, Any], *, batch: int, sequence: int | None, partial: bool = False
) -> Imported:
    """Read a config; raises ``InputError`` for one that is invalid or asks for an op that hypar does not have."""
    where = "config" if isinstance(config, Mapping) else str(config)
    data = dict(config) if isinstance(config, Mapping) else read_json(Path(config))
    if not isinstance(data, dict):
        raise ModelError(where, f"found {shown(data)}", "a mapping with model_type")
    family, names = data.get("model_type"), data.get("architectures")
    data["architectures"] = [*map(str, names)] if isinstance(names, list) else []
    if not isinstance(family, str) or family not in FAMILIES:
        return _through_transformers(data, where, batch=batch, sequence=sequence, partial=partial)
    said = _Config(data, where, sequence)
    content = said.content(batch)
    graph = load_model(content, name=where)
    flop, parameters = 2 * graph.macs(batch=1), graph.num_parameters
    coverage = Coverage(flop, flop, parameters, parameters, {})
    return Imported(name=family, content=content, coverage=coverage, notes=tuple(said.notes()))


def _through_transformers(
    data: dict[str, Any], where: str, *, batch: int, sequence: int | None, partial: bool
) -> Imported:
    """Build a config's model on the meta device, with the head of a language model, and capture it with its loss."""
    family = data.get("model_type")
    known = all(importlib.util.find_spec(one) for one in ("torch", "transformers"))
    library = package("transformers", "torch") if known else None
    if not isinstance(family, str) or library is None or family not in library.CONFIG_MAPPING:
        allowed = f"{', '.join(FAMILIES)}, or with PyTorch and transformers a family of theirs"
        hint = suggestion(str(family), FAMILIES)
        raise ModelError(f"{where}: model_type", f"found {shown(family)}", allowed, hint)
    torch = package("torch", "torch")
    masked = any(name.endswith("ForMaskedLM") for name in data["architectures"])
    kind = library.AutoModelForMaskedLM if masked else library.AutoModelForCausalLM
    with one_line(where, "transformers cannot build it:"), torch.device("meta"):
        options = {key: value for key, value in data.items() if key != "model_type"}
        config = library.AutoConfig.for_model(family, **options)
        config.use_cache = False
        model = kind.from_config(config, dtype=getattr(config, "dtype", None) or torch.float32)
        length = sequence or getattr(config, "max_position_embeddings", None) or 1024
        tokens = torch.zeros((EXAMPLE, length), dtype=torch.int64)
    trace = capture(model, (tokens,), name=family, where=where)
    read = {"input": (trace.output,)}
    shapes = {**trace.shapes, "loss": ()}
    loss = Node(kind="loss", op="loss", operands=read, attributes={"axis": -1}, result="loss", shapes=shapes)
    trace = replace(
        trace, source=SOURCE.format(family), unused_outputs=0, shapes=shapes, nodes=(*trace.nodes, loss), output="loss"
    )  # fmt: skip
    found = imported(trace, batch=batch, partial=partial)
    further = data.get("num_nextn_predict_layers")
    note = f"num_nextn_predict_layers: {further} not in the model file, which is the main model alone"
    return replace(found, notes=(*found.notes, note)) if further else found
