"""Latent attention and experts that are chosen by groups: one network, however it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

import hypar
from tests.importers import latent
from tests.importers.plans import assert_one_network, import_network, importable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch, and a working folder with the networks."""
    pytest.importorskip("torch", reason="PyTorch is an extra")
    importable(tmp_path, monkeypatch, hypar_latent=latent.TORCH)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("build", ["build", pytest.param("written", marks=pytest.mark.slow)])
def test_a_module_is_the_network_by_hand(build: str) -> None:
    found = import_network("torch", f"hypar_latent:{build}", [(6, 32)])
    assert_one_network(found, hypar.load_model(yaml.safe_load(latent.HAND), name="latent"), space="")
    assert "inputs: [attention_q, attention_kv_b, " in found.text()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_features_that_anything_else_joins_stay_opaque() -> None:
    found = import_network("torch", "hypar_latent:joined", [(6, 32)], partial=True)
    assert [entry["op"] for entry in found.content["layers"]] == [
        "input",
        "linear",
        "linear",
        "opaque",
        "linear",
    ]
