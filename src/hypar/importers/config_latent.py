"""The families of DeepSeek's configs: latent attention, and experts that are chosen by groups."""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from hypar.importers.config_families import LOSS, Function, Headed, require_divisor, stack, tied_to
from hypar.importers.config_layers import (
    Entry,
    add,
    embedding,
    experts,
    gated,
    latent_attention,
    linear,
    norm,
)
from hypar.network.modelfile import MOST_REPEATS
from hypar.ops.dims import DimSize


class DeepseekV3(Headed):
    """DeepSeek-V3: latent attention, first layers with a gated unit, then experts by groups beside shared ones.

    The layers that predict further tokens are no part of it.
    """

    learned: ClassVar[bool] = False

    attention_bias: bool = False
    first_k_dense_replace: Annotated[int, Field(ge=0, le=MOST_REPEATS)]
    hidden_act: Function = "silu"
    kv_lora_rank: DimSize
    moe_intermediate_size: DimSize
    moe_layer_freq: Literal[1] = 1
    n_group: DimSize
    n_routed_experts: DimSize
    n_shared_experts: DimSize
    num_experts_per_tok: DimSize
    num_nextn_predict_layers: Annotated[int, Field(ge=0)] = 0
    q_lora_rank: DimSize | None = None
    qk_nope_head_dim: DimSize
    qk_rope_head_dim: DimSize
    tie_word_embeddings: bool = False
    topk_group: DimSize
    v_head_dim: DimSize

    @model_validator(mode="after")
    def _enough_experts(self) -> Self:
        require_divisor("n_routed_experts", self.n_routed_experts, "n_group", self.n_group)
        most = min(self.topk_group, self.n_group) * (self.n_routed_experts // self.n_group)
        if self.topk_group > self.n_group:
            msg = f"topk_group {self.topk_group:,} is more than n_group {self.n_group:,}"
            raise ValueError(msg)
        if self.num_experts_per_tok > most:
            own = f"num_experts_per_tok {self.num_experts_per_tok:,}"
            msg = f"{own} is more than the {most:,} experts of topk_group {self.topk_group:,}"
            raise ValueError(msg)
        if self.qk_rope_head_dim % 2:
            msg = f"qk_rope_head_dim {self.qk_rope_head_dim:,}; allowed: an even number, whose halves are rotated"
            raise ValueError(msg)
        return self

    def dims(self) -> dict[str, int]:
        """Return the sizes; those of a low rank and of experts where there are some."""
        return {
            "hidden": self.hidden_size,
            **({} if self.q_lora_rank is None else {"q_rank": self.q_lora_rank}),
            "kv_rank": self.kv_lora_rank,
            "heads": self.num_attention_heads,
            "head_dim": self.qk_nope_head_dim,
            "rope_dim": self.qk_rope_head_dim,
            "value_dim": self.v_head_dim,
            "ff": self.intermediate_size,
            "experts": self.n_routed_experts,
            "expert_ff": self.moe_intermediate_size,
            "shared_ff": self.moe_intermediate_size * self.n_shared_experts,
            "vocab": self.vocab_size,
        }

    def unit(self) -> list[Entry]:
        """Return the experts of a group's choice, and behind them the shared ones."""
        limited = {"groups": self.n_group, "best": self.topk_group} if self.topk_group < self.n_group else {}
        count, function = self.num_experts_per_tok, self.hidden_act
        return [
            *experts("norm2", function, count, made="expert_ff", choice={"function": "sigmoid", **limited}),
            *gated("norm2", function, bias=False, made="shared_ff", called="shared_"),
            add("mixture", "combine", "shared_down"),
        ]

    def network(self) -> dict[str, Any]:
        """Return first layers and layers with experts between a table and a head."""
        dense = min(self.first_k_dense_replace, self.num_hidden_layers)
        kinds = (
            ("dense", dense, gated("norm2", self.hidden_act, bias=False)),
            ("decoder", self.num_hidden_layers - dense, self.unit()),
        )
        blocks: dict[str, Any] = {}
        stacks = []
        for kind, repeat, unit in kinds:
            if repeat:
                block, entry = stack(kind, self.block(unit), f"{kind}_layers", repeat)
                blocks |= block
                stacks.append(entry)
        layers = [
            {"op": "input", "shape": ["sequence"]},
            embedding("embedding", "vocab"),
            *stacks,
            norm("norm", "rms_norm"),
            linear(
                "head", "hidden", "vocab", bias=False, **tied_to("embedding", tied=self.tie_word_embeddings)
            ),
            LOSS,
        ]
        return {"blocks": blocks, "layers": layers}

    def block(self, unit: list[Entry]) -> list[Entry]:
        """Return a block of an attention and a unit behind it."""
        low_rank = self.q_lora_rank is not None
        return [
            norm("norm1", "rms_norm"),
            *latent_attention("norm1", low_rank=low_rank, bias=self.attention_bias),
            add("add1", "o", "input"),
            norm("norm2", "rms_norm"),
            *unit,
            add("add2", unit[-1]["name"], "add1"),
        ]

    def notes(self, sequence: int) -> list[str]:
        """Return a line on layers that predict further tokens."""
        found = super().notes(sequence)
        if self.num_nextn_predict_layers:
            count = f"num_nextn_predict_layers: {self.num_nextn_predict_layers:,}"
            found.append(f"{count} not in the model file, which is the main model alone")
        return found
