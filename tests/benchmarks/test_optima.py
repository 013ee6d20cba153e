"""The least bytes of every network, and how far above them the greedy plan is: ``docs/optima.md``, row by row.

``pytest tests/benchmarks/test_optima.py -m slow`` compares the page, and with ``-n 0 --update-golden`` writes it.
"""

import contextlib
import re

import pytest

from hypar import plan_model
from hypar.network.graph import load_model
from hypar.planning.searches import joint
from tests.benchmarks.rows import DOCS, Rows
from tests.effort import NETWORKS, TRANSFORMERS

LEVELS = (4, 8, 12, 16, 20)

HEAD = f"""# Optima

The least gigabytes of a training step over all devices, by `moved`, of every network that comes with hypar, at its own mini-batch: the plan of
`--strategy optimal` over all dims. Behind each, how far above it the plan of the same space and count is that is searched
level by level, as [HyPar](strategies/hypar.md) does. ≤ stands before a plan that is not proven, and behind it the gap,
by which the optimum may be lower at most; [networks on images](unproven.md) are proven but for a few.

Written by `pytest tests/benchmarks/test_optima.py -m slow -n 0 --update-golden`.

| network |{"".join(f" {levels} levels |" for levels in LEVELS)}
|---|{"---|" * len(LEVELS)}
"""

CASES = {model: f"| {model} |" for model in (*NETWORKS, *TRANSFORMERS)}
PAGE = Rows("optima.md", HEAD, tuple(CASES.values()))


def cell(best: float, greedy: float, bound: float) -> str:
    """The optimum, how far above it the greedy plan is, and the gap if the optimum is not proven."""
    open_by = f", gap {1 - bound / best:.2%}" if bound < best else ""
    return f"{'≤ ' if open_by else ''}{best / 1e9:.3f}, +{greedy / best - 1:.2%}{open_by}"


def test_the_page_has_a_row_for_each_network() -> None:
    assert PAGE.path.read_text(encoding="utf-8") == PAGE.text(PAGE.found)
    assert len(PAGE.found) == len(CASES)


def test_the_page_on_theorems_names_the_largest_distances() -> None:
    rows = [re.findall(r"\+([\d.]+%)", line) for line in PAGE.found.values()]
    most = [max(column, key=lambda own: float(own[:-1])) for column in zip(*rows, strict=True)]
    named = [f"{share} at {levels}" for share, levels in zip(most, LEVELS, strict=True)]
    named[0] += " levels"
    assert f"above the optimum by {', '.join(named)}." in (DOCS / "optimal.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("model", CASES)
def test_the_page_has_the_optima(model: str, update_golden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Work is counted alone, whatever the clock says.
    monkeypatch.setattr(joint, "timed", lambda _: contextlib.nullcontext())
    graph, cells = load_model(model), []
    for levels in LEVELS:
        best, greedy = (
            plan_model(graph, levels=levels, strategy="optimal", search=search)
            for search in ("joint", "greedy")
        )
        (bound,) = best.bounds or [best.cost.value]
        cells.append(cell(best.cost.value, greedy.cost.value, bound))
    PAGE.compare(CASES[model], f"{CASES[model]} {' | '.join(cells)} |", update=update_golden)
