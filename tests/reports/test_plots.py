"""Pictures say their numbers, count from 0, and are the same bytes twice."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hypar
from hypar.document import Cell, Column, Document, Part, Span, Table, Timeline
from hypar.errors import OptionError
from hypar.planning.replay import ScoredStep, run_plan
from hypar.reports import plots
from hypar.reports.plots import ENDINGS, picture, plot
from hypar.reports.words import TIMES
from hypar.sharding.dims import WORDS
from hypar.studies.step import StepRows

VALUES = st.one_of(st.none(), st.floats(0, 1e15, allow_subnormal=False), st.floats(1e-30, 1e-9))
SECONDS = st.one_of(st.just(0.0), st.floats(1e-12, 10))
PLANS: dict[str, dict[str, Any]] = {
    "levels": {"model": "vgg16", "levels": 4, "hardware": "hmc"},
    "overlap": {"model": "alexnet", "levels": 5, "strategy": "optimal", "hardware": "h100-8x"},
    "grids": {"model": "resnet18", "array": [16], "strategy": "deepa", "hardware": "p100-4x4"},
}


def drawn(part: Table | Timeline) -> ET.Element:
    """The picture of a part, parsed, after the checks that every picture passes."""
    text = picture([part], "t")._repr_svg_()
    assert text == picture([part], "t")._repr_svg_()
    root = ET.fromstring(text)
    assert root[0].tag.rpartition("}")[2] == "title"
    assert text.count("http") == 1
    assert not re.search(r"nan|inf|url\(", " ".join(re.findall(r' (?:d|x|y|width|height)="([^"]*)"', text)))
    left, top, width, height = map(float, (root.get("viewBox") or "").split())
    for box in marks(root, "rect"):
        x, y, wide, high = (float(box.get(key, "")) for key in ("x", "y", "width", "height"))
        assert wide >= 0
        assert left <= x <= x + wide <= left + width + 0.2
        assert top <= y <= y + high <= top + height + 0.2
    return root


def marks(root: ET.Element, kind: str, colour: str = "") -> list[ET.Element]:
    found = [one for one in root.iter() if one.tag.rpartition("}")[2] == kind]
    return [one for one in found if not colour or one.get("class") == colour]


def texts(root: ET.Element) -> list[str]:
    return [one.text or "" for one in marks(root, "text")]


def bars(values: Iterable[Any], unit: str = "seconds") -> Table:
    columns = (Column("name"), Column("value", unit=unit), Column("bar", "", "bar"))
    return Table(
        columns, [{"name": f"r{at}", "value": own, "bar": own} for at, own in enumerate(values)], title="t"
    )


@given(st.lists(VALUES, min_size=1, max_size=9))
def test_any_bars_are_drawn_with_their_numbers(values: list[float | None]) -> None:
    shown = Column("", unit="bytes").text
    said = texts(drawn(bars([0.0, *values], "bytes")))
    assert {shown(own) for own in values if own is not None} <= {*said}


@given(
    st.lists(st.tuples(SECONDS, SECONDS, st.sampled_from([*TIMES]), st.booleans()), max_size=9), st.booleans()
)
def test_any_timeline_is_drawn(spans: list[tuple[float, float, str, bool]], numbered: bool) -> None:
    label = "1" if numbered else ""
    own = tuple(
        Span("a", start, start + long, kind, label, critical) for start, long, kind, critical in spans
    )
    found = drawn(Timeline(title="t", tracks=("a", "b"), spans=own))
    assert {kind for _, _, kind, _ in spans} <= {one.get("class") for one in marks(found, "rect")}


def test_bars_are_as_long_as_their_values_and_one_far_longer_is_cut() -> None:
    root = drawn(bars([0.5, 2.0, 1000.0]))
    lengths = [float(bar.get("width", "")) for bar in marks(root, "rect", "computes")]
    assert lengths[1] == pytest.approx(4 * lengths[0], rel=0.01)
    assert lengths[1] == pytest.approx(0.8 * lengths[2], rel=0.01)
    assert len(marks(root, "rect", "ground")) == 1 + 1
    assert {"name", "r0", "500 ms", "2.00 s", "1,000 s"} <= {*texts(root)}


@pytest.mark.parametrize("ending", ENDINGS)
def test_equal_data_give_equal_bytes(ending: str, tmp_path: Path) -> None:
    parts: tuple[Part, ...] = (bars([3.0, 2.0])._replace(title="costs $5_000 a $step"), bars([1.0, 2.0]))
    files = [tmp_path / f"{name}{ending}" for name in "ab"]
    for file in files:
        plot(Document(title="both", parts=parts), file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_svg_needs_no_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda _name: None)
    document = Document(title="t", parts=(bars([1.0, 2.0, 3.0]),))
    plot(document, tmp_path / "p.svg")
    with pytest.raises(OptionError, match="matplotlib is not installed"):
        plot(document, tmp_path / "p.png")
    assert [file.name for file in tmp_path.iterdir()] == ["p.svg"]


@pytest.fixture(scope="module", params=PLANS)
def ran(request: pytest.FixtureRequest) -> ScoredStep:
    return run_plan(hypar.plan_model(**PLANS[request.param]))


def test_a_picture_of_a_plan_has_a_row_for_each_row_of_both_its_parts(ran: ScoredStep) -> None:
    document = ran.plan.document()
    text = plot(document)._repr_svg_()
    root = ET.fromstring(text)
    _, table, timeline = document.parts
    assert isinstance(table, Table)
    assert isinstance(timeline, Timeline)
    assert timeline.tracks == tuple(row["layer"] for row in table.rows)
    assert {row["layer"] for row in table.rows} <= {*texts(root)}
    assert len(text.encode()) < 40_000
    assert "a step" in (root[0].text or "")
    cells = [cell for row in table.rows for cell in row.values() if isinstance(cell, Cell)]
    words = [word for cell in cells for word, _ in cell.parts]
    assert sorted(text for text in texts(root) if text in {*words}) == sorted(filter(None, words))
    known = {word for words in WORDS.values() for word in words}
    assert {word.rstrip("0123456789") for word in words if word} <= known


def test_bars_of_a_timeline_are_as_long_as_the_tasks(ran: ScoredStep) -> None:
    rows = StepRows(ran=ran)
    timeline = ran.plan.document().parts[2]
    assert isinstance(timeline, Timeline)
    spent = {
        kind: sum(span.end - span.start for span in timeline.spans if span.kind == kind) for kind in TIMES
    }
    for kind in TIMES:
        assert spent[kind] == pytest.approx(
            sum(task.piece.seconds for task in rows.tasks if task.piece.kind == kind)
        )
    root = drawn(timeline)
    scale = max(
        float(bar.get("x", "")) + float(bar.get("width", ""))
        for kind in TIMES
        for bar in marks(root, "rect", kind)[:-1]
    )
    left = min(float(bar.get("x", "")) for kind in TIMES for bar in marks(root, "rect", kind)[:-1])
    for kind in TIMES:
        bars = marks(root, "rect", kind)[:-1]
        long = sum(float(bar.get("width", "")) for bar in bars)
        exact = spent[kind] / ran.timeline.makespan * (scale - left)
        assert abs(long - exact) <= 0.5 * len(bars) + 0.25 * len(timeline.spans)
