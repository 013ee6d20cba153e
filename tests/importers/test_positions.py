"""Vision transformers of PyTorch, ONNX and JAX, with and without experts: one network, however it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

import hypar
from tests.importers import routed_vit
from tests.importers.plans import assert_one_network, import_network, importable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")
SPACE = "batch,heads,ff,hidden"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the networks."""
    modules = {"hypar_vit_torch": routed_vit.TORCH, "hypar_vit_jax": routed_vit.JAX}
    return importable(tmp_path, monkeypatch, **modules)


def by_hand(mlp: str) -> hypar.LayerGraph:
    """The network as a person writes it."""
    return hypar.load_model(yaml.safe_load(routed_vit.by_hand(mlp)), name="vit")


@pytest.mark.parametrize(
    ("build", "mlp", "space"),
    [
        ("routed", routed_vit.ROUTED, ""),
        pytest.param("routed", routed_vit.ROUTED, SPACE, marks=pytest.mark.slow),
        pytest.param("dense", routed_vit.DENSE, SPACE, marks=pytest.mark.slow),
    ],
)
def test_a_module_is_the_network_by_hand(build: str, mlp: str, space: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is an extra")
    found = import_network("torch", f"hypar_vit_torch:{build}", [(3, 16, 16)])
    assert_one_network(found, by_hand(mlp), space)
    assert ", repeat: 2}" in found.text()


@pytest.mark.slow
def test_a_function_of_jax_is_the_network_by_hand() -> None:
    pytest.importorskip("jax", reason="JAX is an extra")
    found = import_network("jax", "hypar_vit_jax:build", [(16, 16, 3)])
    assert_one_network(found, by_hand(routed_vit.DENSE), SPACE)


@pytest.mark.slow
def test_an_exported_file_is_the_network_by_hand(folder: Path) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is an extra")
    pytest.importorskip("onnxscript", reason="torch.onnx needs onnxscript")
    import hypar_vit_torch  # type: ignore[import-not-found]  # noqa: PLC0415 (written by the fixture)

    module = hypar_vit_torch.dense()
    for held in module.parameters():
        # Tensors of equal values would be stored as one.
        held.data.normal_()
    # The exporter writes the token down for every sample.
    torch.onnx.export(module, (torch.zeros(2, 3, 16, 16),), folder / "vit.onnx", dynamo=True)
    assert_one_network(import_network("onnx", "vit.onnx", ()), by_hand(routed_vit.DENSE), SPACE)
