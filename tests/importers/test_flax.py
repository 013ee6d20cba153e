"""Networks of Flax: the models that come with hypar, or are written by hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import hypar
from tests.importers import flax_nets, transformer
from tests.importers.plans import assert_one_network, facts, import_network, importable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with the networks."""
    pytest.importorskip("flax", reason="Flax is a package for tests")
    importable(tmp_path, monkeypatch, hypar_flax_nets=flax_nets.NETS)


def read(name: str, shape: tuple[int, ...], **options: Any) -> Any:
    """Import a network and say how long it takes."""
    begin = time.process_time()
    found = import_network("jax", f"hypar_flax_nets:{name}", [shape], **options)
    print(f"flax {name}: {found.coverage}; {time.process_time() - begin:.1f} CPU s")  # noqa: T201
    return found


def test_resnet50_is_the_model_that_comes_with_hypar() -> None:
    found = read("resnet50", (224, 224, 3))
    assert found.coverage.shares == (1.0, 1.0)
    for strategy in ("dp", "hypar"):
        assert facts(found.graph(), strategy=strategy) == facts(
            hypar.load_model("resnet50"), strategy=strategy
        )


def test_groups_of_channels_are_normalised() -> None:
    found = read("grouped", (8, 8, 3))
    assert found.coverage.shares == (1.0, 1.0)
    assert found.coverage.opaque == {}
    norms = [
        {key: value for key, value in layer.items() if key != "name"} for layer in found.content["layers"]
    ]
    assert [layer for layer in norms if layer["op"] == "group_norm"] == [
        {"op": "group_norm", "groups": 4},
        {"op": "group_norm", "groups": 8, "scale": False, "shift": False},
    ]


def test_a_gpt_is_the_network_by_hand() -> None:
    found = read("gpt", (16,), tokens=frozenset({0}))
    assert_one_network(found, hypar.load_model(yaml.safe_load(transformer.HAND), name="hand"))
    assert ", repeat: 3}" in found.text()
