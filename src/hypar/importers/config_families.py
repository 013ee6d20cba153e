"""The families of Hugging Face's configs that a shipped model's file says, with the config's sizes in place of its own."""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from hypar.errors import shown
from hypar.files.record import Record
from hypar.network.dims import LARGEST
from hypar.network.named import DimSize
from hypar.network.spec.schema import MOST_REPEATS

FUNCTIONS = {
    **dict.fromkeys(("gelu", "gelu_fast", "gelu_new", "gelu_pytorch_tanh"), "gelu"),
    "relu": "relu",
    **dict.fromkeys(("silu", "swish"), "silu"),
}
"""Ops of the functions of configs."""

KEYS = ("name", "op", "in", "out", "each", "bias", "inputs", "weight")
"""Keys of a linear layer in the order of shipped files."""


def _function(name: str) -> str:
    if name not in FUNCTIONS:
        raise ValueError(", ".join(FUNCTIONS))
    return FUNCTIONS[name]


def _never(value: bool) -> bool:
    if value:
        raise ValueError("false")
    return value


Function = Annotated[str, AfterValidator(_function)]
Never = Annotated[bool, AfterValidator(_never)]
Layers = Annotated[int, Field(ge=1, le=MOST_REPEATS)]
Format = Literal["float64", "float32", "float16", "bfloat16"]


class Family(Record):
    """A config; keys that change no size are not read.

    Attributes:
        template: the shipped model whose file says the family.
        head: end of the name of the architecture that the file says.
        learned: whether positions are a trained table.
        table: name of the layer of the vocabulary's table, whose weight the head may use.
    """

    model_config = ConfigDict(extra="ignore")
    template: ClassVar[str]
    head: ClassVar[str] = "ForCausalLM"
    learned: ClassVar[bool] = True
    table: ClassVar[str] = "embedding"

    architectures: list[str] | None = None
    vocab_size: DimSize
    hidden_size: DimSize
    num_hidden_layers: Layers
    num_attention_heads: DimSize
    intermediate_size: DimSize
    max_position_embeddings: DimSize
    hidden_act: Function = "gelu"
    tie_word_embeddings: bool = True
    torch_dtype: Format | None = None
    dtype: Format | None = None

    @model_validator(mode="after")
    def _equal_heads(self) -> Self:
        self.require_divisor("hidden_size", "num_attention_heads")
        return self

    @classmethod
    def key(cls, name: str) -> str:
        """Return the config's key of a field."""
        return cls.model_fields[name].alias or name

    def require_divisor(self, whole: str, part: str) -> None:
        """Require that heads or groups are equal.

        Raises:
            ValueError: the second number does not divide the first.
        """
        size, divisor = getattr(self, whole), getattr(self, part)
        if size % divisor:
            msg = f"{self.key(part)} {divisor:,} does not divide {self.key(whole)} {size:,}"
            raise ValueError(msg)

    @property
    def number_format(self) -> str:
        """Number format of every tensor."""
        return self.dtype or self.torch_dtype or "float32"

    @property
    def biases(self) -> dict[str, bool]:
        """Whether a layer has a bias, by its name, where the config says it."""
        return {}

    @property
    def window(self) -> int | None:
        """Positions that one attends to, if not all before it."""
        return None

    def dims(self) -> dict[str, int]:
        """Return the sizes of the dims but the sequence."""
        return {
            "hidden": self.hidden_size,
            "heads": self.num_attention_heads,
            "head_dim": self.hidden_size // self.num_attention_heads,
            "ff": self.intermediate_size,
            "vocab": self.vocab_size,
        }

    def entry(self, shipped: dict[str, Any]) -> dict[str, Any]:
        """Return an entry of the shipped file as the config has it."""
        found = dict(shipped)
        if "repeat" in found:
            found["repeat"] = self.num_hidden_layers
        if found.get("op") in FUNCTIONS:
            found["op"] = self.hidden_act
        if found.get("op") != "linear":
            return found
        for side in ("in", "out"):
            if isinstance(found[side], list):
                found[side] = [dim for dim in found[side] if dim in self.dims()]
        if (bias := self.biases.get(found["name"])) is not None:
            found["bias"] = bias
        if found["name"] == "head":
            found["weight"] = self.table if self.tie_word_embeddings else None
        said = {key: found[key] for key in KEYS if found.get(key) is not None}
        return {key: value for key, value in said.items() if (key, value) != ("bias", True)}

    def notes(self, sequence: int) -> list[str]:
        """Return lines on what the model file says otherwise than the config."""
        others = [name for name in self.architectures or () if not name.endswith(self.head)]
        found = [
            f"architectures: found {shown(name)}, written with the head of {self.head}" for name in others
        ]
        if self.learned and sequence < (most := self.max_position_embeddings):
            key = self.key("max_position_embeddings")
            found.append(f"{key}: of {most:,} positions the first {sequence:,} are trained")
        if self.window is not None and self.window < sequence:
            attends = f"each of {sequence:,} positions attends to all before it"
            found.append(f"sliding_window: {self.window:,} is not in the model file, in which {attends}")
        return found


class Gpt2(Family):
    """GPT-2: without ``n_inner`` a perceptron is four times as wide as the rest."""

    template: ClassVar[str] = "gpt2"
    head: ClassVar[str] = "LMHeadModel"
    table: ClassVar[str] = "wte"

    hidden_size: Annotated[int, Field(ge=1, le=LARGEST // 4, alias="n_embd")]
    num_attention_heads: DimSize = Field(alias="n_head")
    num_hidden_layers: Layers = Field(alias="n_layer")
    max_position_embeddings: DimSize = Field(alias="n_positions")
    intermediate_size: DimSize | None = Field(default=None, alias="n_inner")  # type: ignore[assignment]
    hidden_act: Function = Field(default="gelu", alias="activation_function")
    add_cross_attention: Never = False

    def dims(self) -> dict[str, int]:
        """Return the sizes of the dims but the sequence."""
        return {**super().dims(), "ff": self.intermediate_size or 4 * self.hidden_size}


class Bert(Family):
    """BERT with the head of its masked language model."""

    template: ClassVar[str] = "bert-large"
    head: ClassVar[str] = "ForMaskedLM"
    table: ClassVar[str] = "words"

    type_vocab_size: DimSize
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Never = False
    add_cross_attention: Never = False

    def dims(self) -> dict[str, int]:
        """Return the sizes of the dims but the sequence."""
        return {**super().dims(), "types": self.type_vocab_size}


class Llama(Family):
    """Llama, Mistral and Qwen2: rotary positions, grouped heads, a gated unit."""

    template: ClassVar[str] = "llama3-8b"
    learned: ClassVar[bool] = False

    model_type: str
    hidden_act: Function = "silu"
    num_key_value_heads: DimSize | None = None
    head_dim: DimSize | None = None
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: DimSize | None = None
    use_sliding_window: bool | None = None

    @model_validator(mode="after")
    def _equal_heads(self) -> Self:
        if self.head_dim is None:
            self.require_divisor("hidden_size", "num_attention_heads")
        if self.num_key_value_heads is not None:
            self.require_divisor("num_attention_heads", "num_key_value_heads")
        if (features := self.dims()["head_dim"]) % 2:
            msg = f"heads of {features:,} features; allowed: an even number, whose halves are rotated"
            raise ValueError(msg)
        return self

    @property
    def biases(self) -> dict[str, bool]:
        """Whether a layer has a bias, by its name: Llama's config says it, queries, keys and values of Qwen2 have one."""
        said = self.model_type == "llama"
        return {
            **dict.fromkeys("qkv", self.model_type == "qwen2" or (said and self.attention_bias)),
            "o": said and self.attention_bias,
            **dict.fromkeys(("gate", "up", "down"), said and self.mlp_bias),
        }

    @property
    def window(self) -> int | None:
        """Positions that one attends to, if not all before it; Qwen2 has a window where its config says that it is used."""
        used = self.use_sliding_window if self.model_type == "qwen2" else self.model_type != "llama"
        return self.sliding_window if used else None

    def dims(self) -> dict[str, int]:
        """Return the sizes; heads are grouped where there are fewer of keys than of queries."""
        group = self.num_attention_heads // (self.num_key_value_heads or self.num_attention_heads)
        return {
            **super().dims(),
            "kv_heads": self.num_attention_heads // group,
            **({"group": group} if group > 1 else {}),
            **({"head_dim": self.head_dim} if self.head_dim else {}),
        }


class Mixtral(Llama):
    """Mixtral: a mixture of experts, each with a gated unit."""

    template: ClassVar[str] = "mixtral-8x7b"

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
        return {**super().dims(), "experts": self.num_local_experts}

    def entry(self, shipped: dict[str, Any]) -> dict[str, Any]:
        """Return an entry of the shipped file with the experts that see a position."""
        own = {"count": self.num_experts_per_tok} if "count" in shipped else {}
        return super().entry({**shipped, **own})


FAMILIES: dict[str, type[Family]] = {
    "gpt2": Gpt2,
    "bert": Bert,
    "llama": Llama,
    "mistral": Llama,
    "mixtral": Mixtral,
    "qwen2": Llama,
}
"""Families by ``model_type``."""
