"""Results show themselves as data frames, in notebooks and as pictures, and stay what they were."""

import copy
import pickle
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import hypar
from hypar import Plan
from hypar.errors import OptionError
from hypar.plan.records import Origin, Score, origin_of
from hypar.studies.grid import Run
from tests.reports.documents import parse_cell, require_sound


@cache
def made(name: str) -> Any:
    return MAKERS[name]()


MAKERS: dict[str, Callable[[], Any]] = {
    "plan": lambda: hypar.plan_model("lenet-c", levels=2, hardware="hmc"),
    "plan without a machine": lambda: hypar.plan_model("lenet-c", levels=1),
    "plan in stages": lambda: hypar.plan_model("sfc", levels=1, hardware="hmc", stages=2),
    "plan for a heterogeneous machine": lambda: hypar.plan_model("lenet-c", hardware="tpu-v2-v3"),
    "plan in grids": lambda: hypar.plan_model("lenet-c", array=[4], strategy="deepa", hardware="p100-4x4"),
    "score": lambda: made("plan").score,
    "score in stages": lambda: made("plan in stages").score,
    "comparison": lambda: hypar.compare_strategies("lenet-c", levels=2, hardware="hmc"),
    "comparison without a machine": lambda: hypar.compare_strategies("lenet-c", levels=2),
    "sweep": lambda: hypar.sweep_model("lenet-c", hardware="hmc", levels=[1, 2], strategy=["dp", "hypar"]),
    "sweep of machines": lambda: hypar.sweep_model("lenet-c", hardware=["hmc", "h100-8x"], levels=7),
    "exploration": lambda: hypar.explore_model("lenet-c", vary="fc1", hardware="hmc", levels=2),
    "explanation": lambda: made("plan").explain("fc1"),
    "explanation of every layer": lambda: made("plan").explain(),
}


@pytest.fixture(params=MAKERS)
def result(request: pytest.FixtureRequest) -> Any:
    return made(request.param)


@pytest.fixture
def plan() -> Plan:
    found: Plan = made("plan")
    return found


def test_a_result_is_a_data_frame_of_plain_cells(result: Any) -> None:
    pd = pytest.importorskip("pandas")
    frame = result.to_frame()
    assert isinstance(frame, pd.DataFrame)
    cells = [value for row in frame.to_dict("records") for value in row.values()]
    assert all(value is None or isinstance(value, bool | int | float | str) for value in cells)
    assert len(frame)


def test_a_result_is_one_valid_element_in_a_notebook(result: Any) -> None:
    text = result._repr_html_()
    root = parse_cell(text)
    require_sound(root, text)
    assert root.get("class") == "hy"
    assert not [element for element in root.iter() if element.get("id")]
    assert len(text.encode()) < 40_000


def test_a_result_is_a_picture(result: Any) -> None:
    picture = ET.fromstring(result.plot()._repr_svg_())
    assert picture[0].text == result.plot().title
    assert len(picture) > 5


def test_a_picture_is_written_to_a_file_too(plan: Plan, tmp_path: Path) -> None:
    plan.plot(tmp_path / "p.svg")
    assert "<svg" in (tmp_path / "p.svg").read_text(encoding="utf-8")
    with pytest.raises(OptionError, match="plot: found the file"):
        plan.plot(tmp_path / "p.gif")


def test_without_pandas_one_line_says_so(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(OptionError) as refused:
        plan.to_frame()
    assert str(refused.value) == "to_frame: pandas is not installed; pip install pandas"
    assert plan._repr_html_()


# Rows


def test_comparisons_and_sweeps_stay_tuples() -> None:
    for result in (made("comparison"), made("sweep"), made("exploration")):
        assert isinstance(result, tuple)
        assert all(isinstance(one, Run) for one in result)
        assert result == tuple(result)
        assert result[0] is next(iter(result))
        assert result[1:] == tuple(result)[1:]
        assert copy.copy(result) == result
    assert copy.copy(made("sweep")).model == "lenet-c"


@pytest.mark.parametrize(
    "name", ["comparison", "comparison without a machine", "sweep", "exploration", "explanation"]
)
def test_runs_are_their_answer_at_a_prompt(name: str) -> None:
    found = made(name)
    assert repr(found) == f"<{type(found).__name__} of {found.document().title}>"
    assert len(repr(found)) < 100


# Origins


def test_an_origin_is_no_part_of_a_plan(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    plan.write(file)
    stored = hypar.read_plan(file)
    assert (stored, stored.score) == (plan, plan.score)
    assert stored.to_json() == plan.to_json()
    assert origin_of(stored).file == file
    again = pickle.loads(pickle.dumps(stored))
    assert again == stored


def test_a_plan_knows_a_network_that_has_no_file() -> None:
    layers = [{"op": "input", "channels": 64}, {"name": "fc", "op": "linear", "out_features": 8}]
    network = hypar.load_model({"source": "a test", "batch": 16, "layers": layers}, name="own")
    machine = hypar.load_machine("hmc", {"topology": "torus"})
    plan = hypar.plan_model(network, levels=1, hardware=machine)
    assert plan.explain("fc").explained[0].layer == "fc"
    assert plan.score
    assert plan.score.plot()
    score = hypar.score_plan(plan, hardware="tpu-v2", model=network)
    assert "tpu-v2" in score.plot()._repr_svg_()


def test_a_score_alone_has_no_timeline(plan: Plan) -> None:
    assert plan.score
    loose = Score.model_validate(plan.score.model_dump())
    assert origin_of(loose).plan is None
    with pytest.raises(OptionError, match="this result has no picture"):
        loose.plot()
    assert loose._repr_html_()
    assert Origin() != Origin()
