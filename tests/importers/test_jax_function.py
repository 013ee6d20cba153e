"""JAX functions as model files."""

from pathlib import Path
from typing import Any

import pytest

from tests.importers.plans import assert_equal_plans, by_hand, import_network, importable, refusal

jax: Any = pytest.importorskip("jax", reason="JAX is an extra")

NETS = """
import jax, jax.numpy as jnp
from jax import lax

def conv(p, x):
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, p["w"], (1, 1), "SAME", dimension_numbers=numbers) + p["b"]

def net(p, x):
    x = jax.nn.relu(conv(p["c1"], x))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x + jax.nn.relu(conv(p["c2"], x))
    x = jnp.maximum(x.mean((1, 2)) @ p["f1"]["w"] + p["f1"]["b"], 0)
    return x @ p["f2"]["w"] + p["f2"]["b"]

def layer(*sizes):
    S = lambda *sizes: jax.ShapeDtypeStruct(sizes, "float32")
    return {"w": S(*sizes), "b": S(sizes[-1])}

def build():
    return net, {"c1": layer(3, 3, 3, 16), "c2": layer(3, 3, 16, 16), "f1": layer(16, 32), "f2": layer(32, 10)}

def branch(): return (lambda p, x: x if x.sum() > 0 else -x), {}
def cube(): return (lambda p, x: jnp.einsum("bij,jk->bik", x, p).sum()), jax.ShapeDtypeStruct((4, 5), "float32")
def product(): return (lambda p, x: (x @ p) * (x @ p)), jax.ShapeDtypeStruct((4, 4), "float32")
def square(): return (lambda p, x: (x @ p) @ (x @ p).T), jax.ShapeDtypeStruct((4, 4), "float32")
def loop(): return (lambda p, x: lax.scan(lambda h, one: (jnp.tanh(h @ p + one), None), x[:, 0], x.swapaxes(0, 1))[0]), \\
    jax.ShapeDtypeStruct((8, 8), "float32")
def strided(): return (lambda p, x: x[:, ::2] @ p), jax.ShapeDtypeStruct((3, 5), "float32")
def constant(): return (lambda p, x: jnp.ones(3)), {}
def nothing(): return 3
def failing(): raise ValueError("no weights here")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return importable(tmp_path, monkeypatch, hypar_jax_nets=NETS)


def test_a_function_and_the_file_by_hand_have_one_plan() -> None:
    found = import_network("jax", "hypar_jax_nets:build", [(32, 32, 3)])
    assert str(found.coverage).startswith("recognised 100 % of ")
    assert_equal_plans(found.graph(), by_hand("images in JAX"))


def test_a_product_of_two_tensors_is_said() -> None:
    found = import_network("jax", "hypar_jax_nets:product", [(4,)])
    assert found.coverage.opaque == {}
    assert [entry["op"] for entry in found.content["layers"]] == ["input", "linear", "linear", "multiply"]


def test_every_other_element_is_no_part_of_a_tensor() -> None:
    found = import_network("jax", "hypar_jax_nets:strided", [(6,)])
    assert [entry["op"] for entry in found.content["layers"]] == ["input", "opaque", "linear"]


IMAGE = ["--input", "8x8x3"]
BAD = {
    "no module": ("nowhere_at_all:build", IMAGE, "no module 'nowhere_at_all'"),
    "no function": ("hypar_jax_nets:nothing", IMAGE,
        "returned a int; allowed: a function and its parameters"),
    "a function that raises": ("hypar_jax_nets:failing", IMAGE, "raised ValueError: no weights here"),
    "control flow by data": ("hypar_jax_nets:branch", IMAGE,
        "jax.make_jaxpr cannot trace it: TracerBoolConversion"),
    "a result without samples": ("hypar_jax_nets:cube", ["--input", "6x4"], "found a result of one number"),
    "samples that meet": ("hypar_jax_nets:square", ["--input", "4"], "recognised 80 % of 160 FLOP"),
    "a loop over a sequence": ("hypar_jax_nets:loop", ["--input", "6x8"],
        "recognised 0 % of 1.54 k FLOP and 0 % of 64 parameters; opaque, cut in the batch alone: 1 scan"),
    "a constant": ("hypar_jax_nets:constant", ["--input", "4"], "the result does not depend on the input"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str) -> None:
    network, options, line = BAD[case]
    assert line in refusal("import", "jax", network, *options)
