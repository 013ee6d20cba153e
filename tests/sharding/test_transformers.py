"""The bytes of a block by the divisions of Megatron-LM, Ulysses and ring attention, against their closed forms."""

import pytest

from hypar.network.graph import LayerGraph
from tests.amounts import amounts
from tests.transformers import chosen, deepseek, gpt, llama, mixtral, one_matrix

WAYS = 8
GPT3 = {"sequence": 2048, "hidden": 12288, "kv_heads": 96, "head_dim": 128, "ff": 49152, "vocab": 8}
MEGATRON = {"q": "out_kv_heads", "k": "out_kv_heads", "v": "out_kv_heads", "attention": "kv_heads",
            "o": "in_kv_heads", "up": "out_ff", "down": "in_ff"}  # fmt: skip


def received(
    graph: LayerGraph, dims: dict[str, str], default: str, convention: str = "moved", inside: str = "h.1."
) -> dict[tuple[str, str], float]:
    """MB that a device receives of each transfer inside the second block, by its phase and its place."""
    nodes = graph.at_rest.contracted
    choices = chosen(nodes, (WAYS,), {"wte": "batch", "head": "batch"} | dims, default)
    found: dict[tuple[str, str], float] = {}
    for one in amounts(nodes, (WAYS,), choices, convention):
        ends = (one.layer,) if isinstance(one.layer, str) else one.layer
        if all(end.startswith(inside) for end in ends):
            place = " ".join(end.removeprefix(inside) for end in ends)
            key = (one.phase, f"{place} {one.tensor}")
            found[key] = found.get(key, 0) + one.elements * graph.element_bytes / WAYS / 1e6
    return found


def total(found: dict[tuple[str, str], float], phase: str, *words: str) -> float:
    return sum(
        size for (own, place), size in found.items() if own == phase and all(word in place for word in words)
    )


def gpt3() -> LayerGraph:
    return gpt(batch=1, blocks=2, tied=False, dtype="bfloat16", **GPT3)


QKV = {**MEGATRON, "qkv": "out_kv_heads"}


@pytest.mark.parametrize("one", [False, True], ids=["three matrices", "one matrix"])
def test_megatron_adds_up_twice_forward_and_backward(one: bool) -> None:
    """As Megatron-LM has it one matrix makes queries, keys and values: one layer reads what all three read."""
    graph = one_matrix(batch=1, blocks=2, dtype="bfloat16", **GPT3) if one else gpt3()
    found = received(graph, QKV if one else MEGATRON, "whole")
    for phase in ("forward", "backward"):
        assert total(found, phase) == pytest.approx(176.16, abs=0.005)
    ends = {"forward": {"o output", "down output"}, "backward": {"qkv input", "up input"}}
    for phase in ends if one else ["forward"]:
        assert {place for own, place in found if own == phase} == ends[phase]


def test_megatron_by_sequence_with_one_matrix_gathers_as_much_as_it_scatters() -> None:
    """Korthikanti et al. (2022), Figure 5: in place of each all-reduce a gather and a reduce-scatter."""
    graph = one_matrix(batch=1, blocks=3, dtype="bfloat16", **GPT3)
    every = received(graph, QKV, "sequence", "fused", "h.")
    found = {key: size for key, size in every.items() if key[1].split()[-2].startswith("1.")}
    for phase in ("forward", "backward"):
        assert total(found, phase, "input") == pytest.approx(88.08, abs=0.005)
        assert total(found, phase, "output") == pytest.approx(88.08, abs=0.005)


def long(kv_heads: int) -> LayerGraph:
    sizes = {
        "sequence": 131072,
        "hidden": 4096,
        "kv_heads": kv_heads,
        "group": 32 // kv_heads,
        "head_dim": 128,
    }
    return llama(batch=1, blocks=2, dtype="bfloat16", **sizes)


@pytest.mark.parametrize(("kv_heads", "each_way"), [(32, 469.76), (8, 293.60)])
def test_ulysses_sends_all_to_all(kv_heads: int, each_way: float) -> None:
    found = received(long(kv_heads), {"attention": "kv_heads"}, "sequence", "fused")
    for phase in ("forward", "backward"):
        assert total(found, phase, "attention") == pytest.approx(each_way, abs=0.005)


@pytest.mark.parametrize(("kv_heads", "each_way"), [(32, 1879.05), (2, 117.44), (1, 58.72)])
def test_ring_attention_gathers_keys_and_values(kv_heads: int, each_way: float) -> None:
    found = received(long(kv_heads), {}, "sequence", "fused")
    for phase in ("forward", "backward"):
        assert total(found, phase, "attention") == pytest.approx(each_way, abs=0.01)


@pytest.mark.parametrize("kv_heads", [32, 2])
def test_attention_divided_in_its_keys_gathers_queries_and_scatters_sums(kv_heads: int) -> None:
    found = received(long(kv_heads), {"attention": "key_sequence"}, "sequence", "fused")
    for phase, sums in (("forward", "attention output"), ("backward", "attention o output")):
        own = {place: size for (at, place), size in found.items() if at == phase and "attention" in place}
        assert own == pytest.approx({"q attention input": 1879.05 / 2, sums: 1879.05 / 2}, abs=0.005)


def test_rotated_keys_that_all_heads_share_are_gathered_once_and_their_errors_scattered() -> None:
    """DeepSeek-V3's attention divided in its heads; one latent layer makes all rotated keys, divided in the sequence.

    The plain parts of queries and keys have the heads that the attention has, and move nothing.
    """
    sizes = {"sequence": 4096, "hidden": 7168, "kv_heads": 128, "head_dim": 128, "rope_dim": 64, "experts": 8}
    graph = deepseek(batch=1, blocks=2, dtype="bfloat16", q_rank=1536, kv_rank=512, **sizes)
    heads = dict.fromkeys(("q", "q_part", "k", "v"), "out_kv_heads") | {
        "attention": "kv_heads",
        "o": "in_kv_heads",
    }
    found = received(graph, {**heads, "gates": "whole"}, "sequence", "fused")
    each = 7 / 8 * 4096 * 64 * 2 / 1e6
    for phase in ("forward", "backward"):
        own = {place: size for (at, place), size in found.items() if at == phase and "attention" in place}
        assert own == pytest.approx({"k_part attention input": each})


def experts(one: bool = False) -> LayerGraph:
    sizes = {"sequence": 4096, "hidden": 4096, "kv_heads": 8, "group": 4, "head_dim": 128, "ff": 14336}
    return mixtral(batch=8, blocks=2, dtype="bfloat16", one=one, experts=8, vocab=8, **sizes)


EXPERTS = dict.fromkeys(("gate", "up", "gated", "down"), "experts")


def test_expert_parallelism_sends_all_to_all() -> None:
    """Each device has an eighth of the 2 b s h elements of the slots, and seven eighths of these are for other devices."""
    each = 7 / 8 / 8 * 2 * (8 * 4096 * 4096) * 2 / 1e6
    assert each == pytest.approx(58.72, abs=0.005)
    found = received(experts(), EXPERTS, "batch", "fused")
    for phase in ("forward", "backward"):
        own = {place: size for (at, place), size in found.items() if at == phase}
        assert own == pytest.approx(
            dict.fromkeys(("dispatch.rest gate input", "dispatch.rest up input", "down combine input"), each)
        )
    assert not [place for phase, place in found if phase == "gradient" and place.split()[0] in EXPERTS]


def test_gate_and_up_share_what_they_read_at_rest() -> None:
    each = 7 / 8 / 8 * 2 * (8 * 4096 * 4096) * 2 / 1e6
    found = received(experts(), {**EXPERTS, "rest": "experts"}, "batch", "fused")
    for phase in ("forward", "backward"):
        own = {place: size for (at, place), size in found.items() if at == phase and "dispatch" in place}
        assert own == pytest.approx({"dispatch dispatch.rest input": each})
