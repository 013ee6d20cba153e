"""Comparison of networks, their layers' names aside."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import hypar
from hypar import LayerGraph
from hypar.importers.formats import WHOLE, imported
from hypar.importers.imported import Imported
from tests.kit import run

FOLDER = Path(__file__).parent
HAND: dict[str, Any] = yaml.safe_load((FOLDER / "hand.yaml").read_text(encoding="utf-8"))


def by_hand(name: str) -> LayerGraph:
    return hypar.load_model(HAND[name], name="hand")


def importable(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> Path:
    """Write modules into a folder, be in it, and let them be imported."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def import_network(
    framework: str,
    source: str,
    shapes: Sequence[tuple[int, ...]],
    *,
    tokens: frozenset[int] = frozenset(),
    **options: Any,
) -> Imported:
    """Import a network whose inputs have samples of some shapes."""
    texts = ["x".join(map(str, shape)) + WHOLE * (place in tokens) for place, shape in enumerate(shapes)]
    return imported(source, texts, framework, **options)


def facts(network: LayerGraph, **options: Any) -> object:
    """What a plan decides and what it costs, without names."""
    plan = hypar.plan_model(network, levels=3, batch=64, **options)
    rows = [plan.dims(layer.name) for layer in network.contracted.layers]
    return rows, plan.cost.value, network.num_parameters, network.flop(), network.macs()


def assert_equal_plans(one: LayerGraph, other: LayerGraph) -> None:
    """Plans of several strategies have equal choices and equal costs."""
    for strategy in ("dp", "hypar", "optimal"):
        assert facts(one, strategy=strategy) == facts(other, strategy=strategy), strategy


def assert_one_network(found: Any, hand: LayerGraph, space: str = "batch,heads,ff,hidden,vocab") -> None:
    """All is recognised, and layers, plans and operations are those of the file by hand."""
    assert found.coverage.shares == (1.0, 1.0)
    assert found.coverage.opaque == {}
    own = found.graph()
    assert [layer.op_name for layer in own.layers] == [layer.op_name for layer in hand.layers]
    assert facts(own, strategy="hypar") == facts(hand, strategy="hypar")
    if space:
        options = {"strategy": "optimal", "space": space}
        assert facts(own, **options) == facts(hand, **options)


def refusal(*arguments: str) -> str:
    """The one line with which a command refuses a network; frameworks may warn besides."""
    result = run(*arguments)
    (line,) = (text for text in result.output.splitlines() if text.startswith("error: "))
    assert result.exit_code == 3
    assert "Traceback" not in result.output
    return line
