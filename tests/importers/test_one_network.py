"""Transformers of PyTorch, JAX and Flax are one network, however they are written."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import hypar
from hypar.importers.imported import imported
from hypar.importers.trace import Node, Trace
from tests.importers import nets
from tests.importers.plans import HAND, assert_one_network, facts, import_network, importable

pytestmark = pytest.mark.filterwarnings("ignore")

MODULES = {
    "hypar_gpt_torch": nets.GPT_TORCH,
    "hypar_gpt_jax": nets.GPT_JAX,
    # A loop over stacked weights.
    "hypar_gpt_loop": nets.GPT_LOOP,
    "hypar_flax_nets": nets.FLAX,
    "hypar_vit_torch": nets.VIT_TORCH,
    "hypar_latent": nets.LATENT,
    "hypar_convolved": nets.CONVOLVED,
}
PACKAGES = {
    "hypar_flax_nets": "flax",
    "hypar_gpt_jax": "jax",
    "hypar_gpt_loop": "jax",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return importable(tmp_path, monkeypatch, **MODULES)


def read(module: str, build: str, shape: tuple[int, ...], **options: Any) -> Any:
    package = PACKAGES.get(module, "torch")
    pytest.importorskip(package)
    return import_network(package.replace("flax", "jax"), f"{module}:{build}", [shape], **options)


def vit(mlp: str) -> Any:
    data = deepcopy(HAND["vit"])
    data["blocks"]["block"]["layers"][8:8] = HAND[mlp]
    return data


def plain(layers: str) -> Any:
    return {"source": "by hand", "batch": 2, "layers": HAND[layers]}


WORDS, HEADS = "batch,heads,ff,hidden,vocab", "batch,heads,ff,hidden"
GPT, LATENT = HAND["gpt"], HAND["latent"]
ROUTED, DENSE, IMAGE = vit("routed mlp"), vit("dense mlp"), (3, 16, 16)
ATTENDS = "inputs: [attention_q, attention_kv_b, "
QUICK: list[tuple[str, tuple[int, ...], Any, str, str]] = [
    ("hypar_gpt_torch:written", (16,), GPT, WORDS, "weight: wte}"),
    ("hypar_gpt_jax:build", (16,), GPT, WORDS, ", repeat: 3}"),
    ("hypar_vit_torch:routed", IMAGE, ROUTED, "", ", repeat: 2}"),
    ("hypar_latent:build", (6, 32), LATENT, "", ATTENDS),
    ("hypar_convolved:row", (4, 20), plain("row"), "", ""),
    ("hypar_convolved:sequence", (6, 16), HAND["sequence"], "", ""),
]
SLOW: list[tuple[str, tuple[int, ...], Any, str, str]] = [
    ("hypar_gpt_torch:build", (16,), GPT, WORDS, ", repeat: 3}"),
    ("hypar_gpt_loop:build", (16,), GPT, WORDS, ", repeat: 3}"),
    ("hypar_flax_nets:gpt", (16,), GPT, WORDS, ", repeat: 3}"),
    ("hypar_vit_torch:routed", IMAGE, ROUTED, HEADS, ""),
    ("hypar_vit_torch:dense", IMAGE, DENSE, HEADS, ""),
    ("hypar_latent:written", (6, 32), LATENT, "", ATTENDS),
    ("hypar_convolved:volume", (2, 4, 4, 6), plain("volume"), "", ""),
    ("hypar_convolved:image", (3, 8, 8), plain("image"), "", ""),
]
"""A source, the shape of a sample, the model by hand, the space of the plan compared, what the file says."""


@pytest.mark.parametrize(("source", "shape", "hand", "space", "said"), [
    *(pytest.param(*row, id=f"{row[0]} {row[3]}") for row in QUICK),
    *(pytest.param(*row, id=f"{row[0]} {row[3]}", marks=pytest.mark.slow) for row in SLOW),
])  # fmt: skip
def test_a_module_is_the_network_by_hand(
    source: str, shape: tuple[int, ...], hand: Any, space: str, said: str
) -> None:
    module, build = source.split(":")
    found = read(module, build, shape, tokens=frozenset({0} if hand is GPT else ()))
    network = hypar.load_model(hand, name="hand")
    assert_one_network(found, network, space)
    assert found.coverage.parameters >= found.graph().num_parameters == network.num_parameters
    assert said in found.text()


@pytest.mark.slow
def test_features_that_anything_else_joins_stay_opaque() -> None:
    found = read("hypar_latent", "Joined", (6, 32), partial=True)
    ops = [entry["op"] for entry in found.content["layers"]]
    assert ops == ["input", "linear", "linear", "opaque", "linear"]


@pytest.mark.slow
def test_resnet50_of_flax_is_the_model_that_comes_with_hypar() -> None:
    found = read("hypar_flax_nets", "resnet50", (224, 224, 3))
    assert found.coverage.shares == (1.0, 1.0)
    for strategy in ("dp", "hypar"):
        shipped = facts(hypar.load_model("resnet50"), strategy=strategy)
        assert facts(found.graph(), strategy=strategy) == shipped


# A trace of no framework


def chain(blocks: int) -> Trace:
    """Residual blocks of a linear layer, a function and a sum."""
    shapes, parameters, nodes, last = {"x": (2, 64)}, {}, [], "x"
    for number in range(blocks):
        weight, *made = (f"{letter}{number}" for letter in "wlra")
        parameters[weight] = weight
        shapes |= {weight: (64, 64)} | dict.fromkeys(made, (2, 64))
        linear, relu, add = made
        letters = {"left": (0, 1), "right": (2, 1), "made": (0, 2)}
        rows: tuple[tuple[str, dict[str, tuple[str, ...]], str, dict[str, Any]], ...] = (
            ("dot", {"left": (last,), "right": (weight,)}, linear, letters),
            ("relu", {"input": (linear,)}, relu, {}),
            ("add", {"input": (last, relu)}, add, {}),
        )
        nodes += [
            Node(
                kind=op, op=op, operands=read, attributes=said, result=result, scope=("body", str(number)),
                shapes=shapes,
            )
            for op, read, result, said in rows
        ]  # fmt: skip
        last = add
    return Trace(
        name="chain", source="", batch=2, dtype="float32", inputs=("x",), parameters=parameters,
        shapes=shapes, nodes=tuple(nodes), output=last,
    )  # fmt: skip


def test_equal_blocks_are_one_entry_and_more_than_an_entry_may_have_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hypar.importers.writing.MOST_REPEATS", 4)
    found = imported(chain(7), batch=4, partial=False)
    turns = [entry.get("repeat") for entry in found.content["layers"]]
    assert turns == [None, 4, 3]
    assert found.graph().num_weighted == 7
