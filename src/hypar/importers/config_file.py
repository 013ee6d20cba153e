"""Import of a Hugging Face config: a shipped model's family by that model's file, any other through transformers."""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import yaml
from pydantic import AfterValidator, ConfigDict, Field, model_validator

from hypar.errors import ModelError, OptionError, Where, field_name, shown, suggestion
from hypar.files.record import Record, one_of
from hypar.files.text import read_json
from hypar.files.validation import validated
from hypar.importers.formats import BATCH, one_line, package
from hypar.importers.imported import Coverage, Imported, imported
from hypar.importers.torch_module import EXAMPLE, capture
from hypar.importers.trace import Node
from hypar.network.graph import LayerGraph, load_model
from hypar.network.modelfile import MOST_REPEATS
from hypar.ops.dims import LARGEST, DimSize
from hypar.registry import data_file

FUNCTIONS = {
    **dict.fromkeys(("gelu", "gelu_fast", "gelu_new", "gelu_pytorch_tanh"), "gelu"),
    "relu": "relu",
    **dict.fromkeys(("silu", "swish"), "silu"),
}
"""Ops of the functions of configs."""


class _Family(NamedTuple):
    """The shipped model whose file says a family, how the name of its architecture ends, and keys that it must have."""

    template: str
    head: str = "ForCausalLM"
    required: tuple[str, ...] = ()


FAMILIES = {
    "gpt2": _Family("gpt2", "LMHeadModel"),
    "bert": _Family("bert-large", "ForMaskedLM", ("intermediate_size", "type_vocab_size")),
    "llama": _Family("llama3-8b", required=("intermediate_size",)),
    "mistral": _Family("llama3-8b", required=("intermediate_size",)),
    "mixtral": _Family(
        "mixtral-8x7b", required=("intermediate_size", "num_local_experts", "num_experts_per_tok")
    ),
    "qwen2": _Family("llama3-8b", required=("intermediate_size",)),
}
"""Families by ``model_type``."""

OWN_KEYS = {
    "gpt2": {
        "hidden_size": "n_embd",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
        "max_position_embeddings": "n_positions",
        "intermediate_size": "n_inner",
        "hidden_act": "activation_function",
    }
}
"""Keys of a family's configs that all others call otherwise."""


def _never(value: bool) -> bool:
    if value:
        raise ValueError("false")
    return value


Never = Annotated[bool, AfterValidator(_never)]
Format = Literal["float64", "float32", "float16", "bfloat16"]


class _Config(Record):
    """A config of a shipped model's family; keys that change no size are not read."""

    model_config = ConfigDict(extra="ignore")

    model_type: str
    architectures: list[str] | None = None
    vocab_size: DimSize
    hidden_size: Annotated[int, Field(ge=1, le=LARGEST // 4)]
    num_hidden_layers: Annotated[int, Field(ge=1, le=MOST_REPEATS)]
    num_attention_heads: DimSize
    max_position_embeddings: DimSize
    intermediate_size: DimSize | None = None
    hidden_act: Annotated[str, one_of(FUNCTIONS)] | None = None
    tie_word_embeddings: bool | None = None
    torch_dtype: Format | None = None
    dtype: Format | None = None
    type_vocab_size: DimSize | None = None
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Never = False
    add_cross_attention: Never = False
    num_key_value_heads: DimSize | None = None
    head_dim: DimSize | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: DimSize | None = None
    use_sliding_window: bool | None = None
    num_local_experts: DimSize | None = None
    num_experts_per_tok: DimSize | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        missing = next((name for name in self.family.required if getattr(self, name) is None), None)
        if missing:
            raise ValueError(f"{missing!r} is missing")
        whole = [("hidden_size", "num_attention_heads")] if self.head_dim is None else []
        for name, part in [*whole, ("num_attention_heads", "num_key_value_heads")]:
            size, divisor = getattr(self, name), getattr(self, part) or 1
            if size % divisor:
                raise ValueError(f"{self.key(part)} {divisor:,} does not divide {self.key(name)} {size:,}")
        if not self.learned and (features := self.dims["head_dim"]) % 2:
            allowed = "an even number, whose halves are rotated"
            raise ValueError(f"heads of {features:,} features; allowed: {allowed}")
        if (self.num_experts_per_tok or 0) > (self.num_local_experts or LARGEST):
            own = f"num_experts_per_tok {self.num_experts_per_tok:,}"
            raise ValueError(f"{own} is more than num_local_experts {self.num_local_experts:,}")
        return self

    @property
    def family(self) -> _Family:
        return FAMILIES[self.model_type]

    @cached_property
    def shipped(self) -> dict[str, Any]:
        """The content of the shipped model's file."""
        text = data_file("models", self.family.template).read_text(encoding="utf-8")
        found: dict[str, Any] = yaml.safe_load(text)
        return found

    @property
    def learned(self) -> bool:
        """Whether its positions are a trained table."""
        return any(entry.get("op") == "position" for entry in self.shipped["layers"])

    def key(self, name: str) -> str:
        return OWN_KEYS.get(self.model_type, {}).get(name, name)

    @property
    def biased(self) -> set[str]:
        """Layers with a bias that the shipped file does not have: Llama's config says it, Qwen2 has some always."""
        said = {*("qkvo" * self.attention_bias), *(("gate", "up", "down") * self.mlp_bias)}
        return {"llama": said, "qwen2": {*"qkv"}}.get(self.model_type, set())

    @property
    def window(self) -> int | None:
        """Positions that one attends to, if not all before it; Qwen2 has a window where its config says that it is used."""
        used = self.use_sliding_window if self.model_type == "qwen2" else self.model_type != "llama"
        return self.sliding_window if used else None

    @property
    def dims(self) -> dict[str, int]:
        heads = self.num_attention_heads
        group = heads // (self.num_key_value_heads or heads)
        found = {
            "hidden": self.hidden_size,
            "heads": heads,
            "kv_heads": heads // group,
            "group": group if group > 1 else None,
            "head_dim": self.head_dim or self.hidden_size // heads,
            "ff": self.intermediate_size or 4 * self.hidden_size,
            "types": self.type_vocab_size,
            "experts": self.num_local_experts,
            "vocab": self.vocab_size,
        }
        return {name: size for name, size in found.items() if size is not None}

    def entry(self, shipped: dict[str, Any]) -> dict[str, Any]:
        """Return an entry of the shipped file as the config has it."""
        own = {"repeat": self.num_hidden_layers, "count": self.num_experts_per_tok}
        found = {key: own.get(key, value) for key, value in shipped.items()}
        if found.get("op") in FUNCTIONS.values():
            found["op"] = FUNCTIONS[self.hidden_act] if self.hidden_act else found["op"]
        for side in {"in", "out"} & {*found}:
            if isinstance(found[side], list):
                found[side] = [dim for dim in found[side] if dim in self.dims]
        if found.get("name") in self.biased:
            del found["bias"]
        if found.get("name") == "head":
            tied = self.learned if self.tie_word_embeddings is None else self.tie_word_embeddings
            tables = (one["name"] for one in self.shipped["layers"] if one.get("over") == "vocab")
            found["weight"] = next(tables) if tied else None
        return {key: value for key, value in found.items() if value is not None}

    def content(self, length: int, batch: int) -> dict[str, Any]:
        """Return the shipped file with the sizes of the config."""
        dims = {"sequence": length, **self.dims}
        number_format = self.dtype or self.torch_dtype or "float32"
        return {
            "source": _source(self.model_type),
            "batch": batch,
            **({} if number_format == "float32" else {"dtype": number_format}),
            "dims": {name: dims[name] for name in self.shipped["dims"] if name in dims},
            "blocks": {
                kind: {"layers": [self.entry(entry) for entry in block["layers"]]}
                for kind, block in self.shipped["blocks"].items()
            },
            "layers": [self.entry(entry) for entry in self.shipped["layers"]],
        }

    def length(self, sequence: int | None) -> int:
        """Return the positions of a sample, as many as are asked for if these are allowed."""
        most = self.max_position_embeddings
        largest = most if self.learned else LARGEST
        if sequence is not None and not 1 <= sequence <= largest:
            key = f", the {self.key('max_position_embeddings')} of the config" if self.learned else ""
            raise OptionError("sequence", f"found {sequence:,}", f"a whole number from 1 to {largest:,}{key}")
        return most if sequence is None else sequence

    def notes(self, sequence: int) -> Iterator[str]:
        """Yield lines on what the model file says otherwise than the config."""
        for name in self.architectures or ():
            if not name.endswith(self.family.head):
                yield f"architectures: found {shown(name)}, written with the head of {self.family.head}"
        if self.learned and sequence < (most := self.max_position_embeddings):
            key = self.key("max_position_embeddings")
            yield f"{key}: of {most:,} positions the first {sequence:,} are trained"
        if self.window is not None and self.window < sequence:
            attends = f"each of {sequence:,} positions attends to all before it"
            yield f"sliding_window: {self.window:,} is not in the model file, in which {attends}"


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
    """Read a config.

    Raises:
        InputError: the config is invalid, or asks for an op that hypar does not have.
    """
    where = "config" if isinstance(config, Mapping) else str(config)
    data = dict(config) if isinstance(config, Mapping) else read_json(Path(config))
    if not isinstance(data, dict):
        raise ModelError(where, f"found {shown(data)}", "a mapping with model_type")
    family = data.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        return _through_transformers(data, where, batch=batch, sequence=sequence, partial=partial)

    own = OWN_KEYS.get(family, {})

    def place(field: Where) -> str:
        return f"{where}: {field_name((own.get(str(field[0]), field[0]), *field[1:]))}" if field else where

    read = {**data, **{name: data[key] for name, key in own.items() if key in data}}
    said = validated(_Config, read, place=place, error=ModelError)
    length = said.length(sequence)
    content = said.content(length, batch)
    graph = load_model(content, name=family)
    flop, parameters = 2 * graph.macs(batch=1), graph.num_parameters
    coverage = Coverage(flop, flop, parameters, parameters, {})
    return Imported(name=family, content=content, coverage=coverage, notes=tuple(said.notes(length)))


def _source(family: str) -> str:
    return f"imported from a Hugging Face config of model_type {family}"


def _through_transformers(
    data: dict[str, Any], where: str, *, batch: int, sequence: int | None, partial: bool
) -> Imported:
    """Build a config's model on the meta device, with the head of a language model, and capture it with its loss."""
    family = _family(data, where)
    torch, library = package("torch", "torch"), package("transformers", "torch")
    masked = any(name.endswith("ForMaskedLM") for name in data.get("architectures") or ())
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
    loss = Node(kind="loss", op="loss", operands=read, attributes={"axis": -1}, result="loss")
    trace = replace(
        trace, source=_source(family), unused_outputs=0, shapes={**trace.shapes, "loss": ()},
        nodes=(*trace.nodes, loss), output="loss",
    )  # fmt: skip
    found = imported(trace, batch=batch, partial=partial)
    further = data.get("num_nextn_predict_layers")
    note = f"num_nextn_predict_layers: {further} not in the model file, which is the main model alone"
    return replace(found, notes=(*found.notes, note)) if further else found


def _family(data: dict[str, Any], where: str) -> str:
    """Return the name of a family of transformers."""
    known = f"{', '.join(FAMILIES)}, or with PyTorch and transformers a family of theirs"
    name = data.get("model_type")
    if name is None:
        raise ModelError(where, "'model_type' is missing", known)
    have = all(importlib.util.find_spec(one) for one in ("torch", "transformers"))
    if isinstance(name, str) and have and name in package("transformers", "torch").CONFIG_MAPPING:
        return name
    hint = suggestion(name, FAMILIES) if isinstance(name, str) else ""
    raise ModelError(f"{where}: model_type", f"found {shown(name)}", known, hint)
