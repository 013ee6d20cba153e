"""Transformers of PyTorch, ONNX and JAX: one network, however it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

import hypar
from hypar.registry import data_file
from tests.importers import transformer
from tests.importers.plans import assert_one_network, import_network, importable

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = frozenset({0})


@pytest.fixture
def hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> hypar.LayerGraph:
    """The network by hand; the working folder has the modules."""
    modules = {"hypar_gpt_torch": transformer.TORCH, "hypar_gpt_jax": transformer.JAX}
    importable(tmp_path, monkeypatch, **modules)
    return hypar.load_model(yaml.safe_load(transformer.HAND), name="hand")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("build", [pytest.param("build", marks=pytest.mark.slow), "written"])
def test_a_module_is_the_network_by_hand(build: str, hand: hypar.LayerGraph) -> None:
    pytest.importorskip("torch", reason="PyTorch is an extra")
    found = import_network("torch", f"hypar_gpt_torch:{build}", [(16,)], tokens=TOKENS)
    assert_one_network(found, hand)
    assert ", repeat: 3}" in found.text()
    assert "weight: wte}" in found.text()


def test_a_function_of_jax_is_the_network_by_hand(hand: hypar.LayerGraph) -> None:
    pytest.importorskip("jax", reason="JAX is an extra")
    found = import_network("jax", "hypar_gpt_jax:build", [(16,)], tokens=TOKENS)
    assert_one_network(found, hand)
    assert ", repeat: 3}" in found.text()


@pytest.mark.slow
def test_a_loop_over_layers_is_the_network_by_hand(hand: hypar.LayerGraph, tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="JAX is an extra")
    (tmp_path / "hypar_gpt_loop.py").write_text(transformer.JAX_LOOP, encoding="utf-8")
    found = import_network("jax", "hypar_gpt_loop:build", [(16,)], tokens=TOKENS)
    assert_one_network(found, hand)
    assert ", repeat: 3}" in found.text()


@pytest.mark.slow
def test_gpt2_in_jax_is_the_model_that_comes_with_hypar(hand: hypar.LayerGraph, tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="JAX is an extra")
    large = transformer.JAX.replace("16, 32, 4, 400", "1024, 768, 12, 50257").replace("range(3)", "range(12)")
    (tmp_path / "hypar_gpt_large.py").write_text(large, encoding="utf-8")
    found = import_network("jax", "hypar_gpt_large:build", [(1024,)], tokens=TOKENS)
    content = yaml.safe_load(data_file("models", "gpt2").read_text(encoding="utf-8"))
    # The function gives scores, and no loss.
    content["layers"] = content["layers"][:-1]
    assert_one_network(found, hypar.load_model(content, name="gpt2"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("build", ["build", "written"])
def test_an_exported_file_is_the_network_by_hand(build: str, hand: hypar.LayerGraph, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is an extra")
    pytest.importorskip("onnxscript", reason="torch.onnx needs onnxscript")
    import hypar_gpt_torch  # type: ignore[import-not-found]  # noqa: PLC0415 (written by the fixture)

    module = getattr(hypar_gpt_torch, build)()
    for held in module.parameters():
        # Tensors of equal values would be stored as one.
        held.data.normal_()
    torch.onnx.export(module, (torch.zeros(2, 16, dtype=torch.int64),), tmp_path / "gpt.onnx", dynamo=True)
    assert_one_network(import_network("onnx", str(tmp_path / "gpt.onnx"), ()), hand)
