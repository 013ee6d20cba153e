"""Families of Hugging Face's configs: the keys that each reads, and the layers that they describe."""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from hypar.errors import shown
from hypar.files.record import Record
from hypar.importers.config_layers import (
    Entry,
    add,
    attention,
    embedding,
    experts,
    gated,
    linear,
    norm,
    perceptron,
)
from hypar.network.modelfile import MOST_REPEATS
from hypar.ops.dims import LARGEST, DimSize

FUNCTIONS = {
    "gelu": "gelu",
    "gelu_fast": "gelu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Ops of the functions of configs."""


def _function(name: str) -> str:
    """Return the op of a function."""
    if name not in FUNCTIONS:
        raise ValueError(", ".join(FUNCTIONS))
    return FUNCTIONS[name]


def _never(value: bool) -> bool:
    """Refuse a part of a network that no family has."""
    if value:
        msg = "false"
        raise ValueError(msg)
    return value


Function = Annotated[str, AfterValidator(_function)]
Never = Annotated[bool, AfterValidator(_never)]
Layers = Annotated[int, Field(ge=1, le=MOST_REPEATS)]
Format = Literal["float64", "float32", "float16", "bfloat16"]


class Family(Record):
    """A config; keys that change no size are not read."""

    model_config = ConfigDict(extra="ignore")
    learned: ClassVar[bool] = True
    head: ClassVar[str] = "ForCausalLM"

    architectures: list[str] | None = None
    vocab_size: DimSize
    torch_dtype: Format | None = None
    dtype: Format | None = None

    @property
    @abstractmethod
    def positions(self) -> tuple[str, int]:
        """Key and value of the largest sequence."""

    @abstractmethod
    def dims(self) -> dict[str, int]:
        """Return the sizes of the dims but the sequence."""

    @abstractmethod
    def network(self) -> dict[str, Any]:
        """Return the ``blocks`` and the ``layers`` of the model file."""

    def notes(self, sequence: int) -> list[str]:
        """Return lines on what the model file says otherwise than the config."""
        key, most = self.positions
        others = [name for name in self.architectures or () if not name.endswith(self.head)]
        found = [
            f"architectures: found {shown(name)}, written with the head of {self.head}" for name in others
        ]
        if self.learned and sequence < most:
            found.append(f"{key}: of {most:,} positions the first {sequence:,} are trained")
        return found

    @property
    def number_format(self) -> str:
        """Number format of every tensor."""
        return self.dtype or self.torch_dtype or "float32"


def stack(kind: str, block: list[Entry], name: str, repeat: int) -> tuple[dict[str, Any], Entry]:
    """Return a block, and the entry that repeats it."""
    return {kind: {"layers": block}}, {"block": kind, "name": name, "repeat": repeat}


def tied_to(table: str, *, tied: bool) -> dict[str, str]:
    """Return the field of a layer that may use the weight of a table."""
    return {"weight": table} if tied else {}


LOSS = {"op": "cross_entropy", "over": "vocab"}


def require_divisor(key: str, size: int, divisor_key: str, divisor: int) -> None:
    """Require that heads or groups are equal.

    Raises:
        ValueError: the second number does not divide the first.
    """
    if size % divisor:
        msg = f"{divisor_key} {divisor:,} does not divide {key} {size:,}"
        raise ValueError(msg)


class Gpt2(Family):
    """GPT-2: normalisations before, biases, learned positions."""

    head: ClassVar[str] = "LMHeadModel"

    n_embd: Annotated[int, Field(ge=1, le=LARGEST // 4)]
    n_head: DimSize
    n_layer: Layers
    n_positions: DimSize
    n_inner: DimSize | None = None
    activation_function: Function = "gelu"
    add_cross_attention: Never = False
    tie_word_embeddings: bool = True

    @model_validator(mode="after")
    def _equal_heads(self) -> Self:
        require_divisor("n_embd", self.n_embd, "n_head", self.n_head)
        return self

    @property
    def positions(self) -> tuple[str, int]:
        """Key and value of the largest sequence."""
        return "n_positions", self.n_positions

    def dims(self) -> dict[str, int]:
        """Return the sizes; without ``n_inner`` a perceptron is four times as wide as the rest."""
        return {
            "hidden": self.n_embd,
            "heads": self.n_head,
            "head_dim": self.n_embd // self.n_head,
            "ff": self.n_inner or 4 * self.n_embd,
            "vocab": self.vocab_size,
        }

    def network(self) -> dict[str, Any]:
        """Return a decoder between its tables and its head."""
        block = [
            norm("ln1"),
            *attention("ln1", ["heads", "head_dim"], bias=True, out_bias=True),
            add("add1", "o", "input"),
            norm("ln2"),
            *perceptron(self.activation_function),
            add("add2", "down", "add1"),
        ]
        blocks, decoder = stack("decoder", block, "h", self.n_layer)
        layers = [
            {"op": "input", "shape": ["sequence"]},
            embedding("wte", "vocab"),
            {"name": "wpe", "op": "position"},
            decoder,
            norm("ln_f"),
            linear("head", "hidden", "vocab", bias=False, **tied_to("wte", tied=self.tie_word_embeddings)),
            LOSS,
        ]
        return {"blocks": blocks, "layers": layers}


class Headed(Family):
    """A config with the keys that all later families have."""

    hidden_size: DimSize
    num_hidden_layers: Layers
    num_attention_heads: DimSize
    intermediate_size: DimSize
    max_position_embeddings: DimSize

    @property
    def positions(self) -> tuple[str, int]:
        """Key and value of the largest sequence."""
        return "max_position_embeddings", self.max_position_embeddings


class Bert(Headed):
    """BERT with the head of its masked language model."""

    head: ClassVar[str] = "ForMaskedLM"

    type_vocab_size: DimSize
    hidden_act: Function = "gelu"
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Never = False
    add_cross_attention: Never = False
    tie_word_embeddings: bool = True

    @model_validator(mode="after")
    def _equal_heads(self) -> Self:
        require_divisor("hidden_size", self.hidden_size, "num_attention_heads", self.num_attention_heads)
        return self

    def dims(self) -> dict[str, int]:
        """Return the sizes."""
        return {
            "hidden": self.hidden_size,
            "heads": self.num_attention_heads,
            "head_dim": self.hidden_size // self.num_attention_heads,
            "ff": self.intermediate_size,
            "vocab": self.vocab_size,
            "types": self.type_vocab_size,
        }

    def network(self) -> dict[str, Any]:
        """Return an encoder between its tables and its head."""
        block = [
            *attention("input", ["heads", "head_dim"], bias=True, out_bias=True, causal=False),
            add("add1", "o", "input"),
            norm("norm1"),
            *perceptron(self.hidden_act),
            add("add2", "down", "norm1"),
            norm("norm2"),
        ]
        blocks, encoder = stack("encoder", block, "encoder", self.num_hidden_layers)
        layers = [
            *({"name": name, "op": "input", "shape": ["sequence"]} for name in ("tokens", "segments")),
            embedding("words", "vocab", inputs="tokens"),
            {"name": "positions", "op": "position"},
            embedding("segment", "types", inputs="segments"),
            add("embedded", "positions", "segment"),
            norm("norm"),
            encoder,
            linear("transform", "hidden", "hidden", bias=True),
            {"op": self.hidden_act},
            norm("transformed"),
            linear("head", "hidden", "vocab", bias=True, **tied_to("words", tied=self.tie_word_embeddings)),
            LOSS,
        ]
        return {"blocks": blocks, "layers": layers}


class Rotary(Headed):
    """Root mean squares, rotary positions, grouped heads, a gated unit."""

    learned: ClassVar[bool] = False

    num_key_value_heads: DimSize | None = None
    head_dim: DimSize | None = None
    hidden_act: Function = "silu"
    tie_word_embeddings: bool = False

    @model_validator(mode="after")
    def _equal_heads(self) -> Self:
        heads = ("num_attention_heads", self.num_attention_heads)
        if self.head_dim is None:
            require_divisor("hidden_size", self.hidden_size, *heads)
        require_divisor(*heads, "num_key_value_heads", self.num_key_value_heads or heads[1])
        if self.features % 2:
            msg = f"heads of {self.features:,} features; allowed: an even number, whose halves are rotated"
            raise ValueError(msg)
        return self

    @property
    def features(self) -> int:
        """Features of a head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def group(self) -> int:
        """Heads of queries for each one of keys."""
        return self.num_attention_heads // (self.num_key_value_heads or self.num_attention_heads)

    @property
    def biases(self) -> tuple[bool, bool, bool]:
        """Whether queries, keys and values, the layer behind the attention, and the gated unit have biases."""
        return False, False, False

    @property
    def window(self) -> int | None:
        """Positions that one attends to, if not all before it."""
        return None

    def dims(self) -> dict[str, int]:
        """Return the sizes; heads are grouped where there are fewer of keys than of queries."""
        return {
            "hidden": self.hidden_size,
            "kv_heads": self.num_attention_heads // self.group,
            **({"group": self.group} if self.group > 1 else {}),
            "head_dim": self.features,
            "ff": self.intermediate_size,
            "vocab": self.vocab_size,
        }

    def unit(self) -> list[Entry]:
        """Return the gated unit behind the second normalisation."""
        return gated("norm2", self.hidden_act, bias=self.biases[2])

    def network(self) -> dict[str, Any]:
        """Return a decoder between its table and its head."""
        bias, out_bias, _ = self.biases
        queries = ["kv_heads", *(["group"] if self.group > 1 else []), "head_dim"]
        block = [
            norm("norm1", "rms_norm"),
            *attention("norm1", queries, bias=bias, out_bias=out_bias, rope=True),
            add("add1", "o", "input"),
            norm("norm2", "rms_norm"),
            *(unit := self.unit()),
            add("add2", unit[-1]["name"], "add1"),
        ]
        blocks, decoder = stack("decoder", block, "layers", self.num_hidden_layers)
        tied = tied_to("embedding", tied=self.tie_word_embeddings)
        layers = [
            {"op": "input", "shape": ["sequence"]},
            embedding("embedding", "vocab"),
            decoder,
            norm("norm", "rms_norm"),
            linear("head", "hidden", "vocab", bias=False, **tied),
            LOSS,
        ]
        return {"blocks": blocks, "layers": layers}

    def notes(self, sequence: int) -> list[str]:
        """Return a line on a window that is shorter than the sequence."""
        found = super().notes(sequence)
        if self.window is not None and self.window < sequence:
            attends = f"each of {sequence:,} positions attends to all before it"
            found.append(f"sliding_window: {self.window:,} is not in the model file, in which {attends}")
        return found


class Llama(Rotary):
    """Llama: biases where the config has them."""

    attention_bias: bool = False
    mlp_bias: bool = False

    @property
    def biases(self) -> tuple[bool, bool, bool]:
        """Whether queries, keys and values, the layer behind the attention, and the gated unit have biases."""
        return self.attention_bias, self.attention_bias, self.mlp_bias


class Mistral(Rotary):
    """Mistral: no biases, and a window of positions."""

    sliding_window: DimSize | None = None

    @property
    def window(self) -> int | None:
        """Positions that one attends to, if not all before it."""
        return self.sliding_window


class Mixtral(Mistral):
    """Mixtral: a mixture of experts, each with a gated unit."""

    num_local_experts: DimSize
    num_experts_per_tok: DimSize

    @model_validator(mode="after")
    def _enough_experts(self) -> Self:
        if self.num_experts_per_tok > self.num_local_experts:
            own = f"num_experts_per_tok {self.num_experts_per_tok:,}"
            msg = f"{own} is more than num_local_experts {self.num_local_experts:,}"
            raise ValueError(msg)
        return self

    def dims(self) -> dict[str, int]:
        """Return the sizes, those of the experts among them."""
        found = super().dims()
        vocab = found.pop("vocab")
        return {**found, "experts": self.num_local_experts, "vocab": vocab}

    def unit(self) -> list[Entry]:
        """Return the experts with their router behind the second normalisation."""
        return experts("norm2", self.hidden_act, self.num_experts_per_tok)


class Qwen2(Rotary):
    """Qwen2: biases of queries, keys and values, and a window where the config uses it."""

    sliding_window: DimSize | None = None
    use_sliding_window: bool = False

    @property
    def biases(self) -> tuple[bool, bool, bool]:
        """Whether queries, keys and values, the layer behind the attention, and the gated unit have biases."""
        return True, False, False

    @property
    def window(self) -> int | None:
        """Positions that one attends to, if not all before it."""
        return self.sliding_window if self.use_sliding_window else None
