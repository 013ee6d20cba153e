"""The page of a plan: valid, whole, the same twice, and safe whatever the names in it."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypar.reports.sections.costs import AT_REST
from hypar.reports.sections.page import page
from hypar.studies.report.gather import gather_report

from hypar.network.build import load_model
from hypar.plan.plan import Plan, read_plan
from hypar.planning.planner import plan_model
from hypar.registry import data_folder
from hypar.sharding.dims import WORDS
from tests.effort import late
from tests.reports.documents import parse_cell, parse_page, require_sound, words_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "vgg16": ("vgg16", {"hardware": "hmc"}),
    "resnet50": ("resnet50", {"strategy": "deepa", "array": [16], "hardware": "p100-4x4"}),
    "mixed": ("lenet-c", {"strategy": "accpar", "hardware": "tpu-v2-v3", "levels": 3}),
    "sfc": ("sfc", {"stages": 4, "levels": 2, "hardware": "hmc"}),
    "bare": ("alexnet", {"strategy": "optimal"}),
    "deep": ("resnet18", {"levels": 4}),
    "overlapped": ("lenet-c", {"hardware": "h100-8x", "levels": 3, "chunks": "best", "pins": ["fc1=dp"]}),
    "unfit": ("vgg16", {"strategy": "mp", "hardware": "hmc"}),
    "at rest": ("lenet-c", {"hardware": "hmc-physical"}),
    "alone": ("lenet-c", {"stages": 2, "levels": 0, "hardware": "hmc"}),
}
ORDER = ["headline", "plan", "costs", "step", "memory", "strategies", "why", "claim", "machine", "again"]


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, str]]:
    """Return a function that writes a plan and its page once, each plan beside nothing else."""

    @cache
    def written(name: str) -> tuple[Path, str]:
        model, asked = PLANS[name]
        file = tmp_path_factory.mktemp("plans") / f"{model}.plan.json"
        plan_model(model, **asked).write(file)
        return file, page(gather_report(file), "0.0")

    return written


@pytest.fixture(scope="module", params=late(PLANS, "resnet50", "deep"))
def written(request: pytest.FixtureRequest, page_of: Callable[[str], tuple[Path, str]]) -> tuple[Path, str]:
    return page_of(request.param)


def test_a_page_is_valid_and_loads_nothing(written: tuple[Path, str]) -> None:
    root = parse_page(written[1])
    require_sound(root, written[1])
    assert root.get("lang") == "en"
    assert len([*root.iter("h1")]) == len([*root.iter("main")]) == 1
    assert [element.get("id") for element in root.iter() if element.get("id")] == ORDER
    title = next(root.iter("title")).text or ""
    assert title == "".join(next(root.iter("h1")).itertext())
    assert "a step" in title


def test_a_page_names_every_layer_and_every_choice(written: tuple[Path, str]) -> None:
    plan, text = read_plan(written[0]), words_of(parse_page(written[1]))
    for layer in plan.layers:
        assert _stands(layer, text), layer
    for split in plan.splits:
        for layer in plan.layers:
            for dim, degree in split.choice(layer).degrees:
                found = {*WORDS[dim], f"{WORDS[dim][2]}{degree}"}
                assert any(re.search(rf"(?<!\w){word}(?!\w)", text) for word in found), (layer, dim, degree)


def _stands(layer: str, text: str) -> bool:
    """Whether a layer is named, or is in the range of an equal block, as ``layer1.rest.0-1.conv1``."""
    if layer in text:
        return True
    stem, number, rest = re.fullmatch(r"(\D.*?\.)(\d+)(\..*)", layer).groups()  # type: ignore[union-attr]
    ranges = re.findall(rf"{re.escape(stem)}(\d+)-(\d+){re.escape(rest)}", text)
    return any(int(low) <= int(number) <= int(high) for low, high in ranges)


def test_a_notebooks_cell_is_one_small_valid_element(written: tuple[Path, str]) -> None:
    plan = read_plan(written[0])
    cell = plan._repr_html_()
    root = parse_cell(cell)
    require_sound(root, cell)
    assert root.get("class") == "hy"
    assert not [element for element in root.iter() if element.get("id")]
    assert len(cell.encode()) < 40_000
    assert plan.strategy in words_of(root)


def test_a_page_says_what_is_not_known(page_of: Callable[[str], tuple[Path, str]]) -> None:
    text = _text_of(page_of("bare"))
    assert text.count("Not known: the plan names no machine.") == 3
    assert "None is named; hypar plan --hardware names one." in text
    assert "No strategy compared is noticeably cheaper" in text


def test_the_headline_names_a_better_strategy(page_of: Callable[[str], tuple[Path, str]]) -> None:
    text = _text_of(page_of("sfc"))
    assert "sfc on hmc, 16 devices: 195\u202fms a step" in text
    assert re.search(
        r"Of the strategies compared, +optimal +is faster: 90\.5\u202fms; this plan takes 2\.1\d\u00d7 as long",
        text,
    )
    assert "Why this cut" in text


def test_a_machine_without_energies_says_so(tmp_path: Path) -> None:
    file = tmp_path / "lenet-c.plan.json"
    plan_model("lenet-c", hardware="p100-4x4").write(file)
    text = _text_of((file, page(gather_report(file), "0.0")))
    assert "Not known: the machine\u2019s file gives no energies." in text


def _text_of(written: tuple[Path, str]) -> str:
    """The words of the page of a plan."""
    return words_of(parse_page(written[1]))


HOSTILE = """<b>&"'<script>x"""


def test_names_from_files_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, machine = tmp_path / f"{HOSTILE}.yaml", tmp_path / f"m{HOSTILE}.yaml"
    model.write_text((data_folder("models") / "lenet-c.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    text = (data_folder("hardware") / "hmc.yaml").read_text(encoding="utf-8")
    machine.write_text(text.replace('"HyPar, section 6.1: a cube"', json.dumps(HOSTILE)), encoding="utf-8")
    plan = plan_model(load_model(model), levels=2, hardware=str(machine))
    plan.write(tmp_path / "odd.plan.json")
    text = page(gather_report(tmp_path / "odd.plan.json"), HOSTILE)
    root = parse_page(text)
    require_sound(root, text)
    assert HOSTILE not in text
    # The title, the heading, the line above it, the commands, the machine's sources, the footer.
    assert words_of(root).count(HOSTILE) >= 8


def test_names_in_a_cell_are_escaped() -> None:
    data = plan_model("lenet-c", levels=2).to_json().replace("fc1", json.dumps(HOSTILE)[1:-1])
    plan = Plan.model_validate_json(data)
    assert HOSTILE in plan.layers
    renamed = plan.model_copy(update={"model": plan.model.model_copy(update={"name": HOSTILE})})
    cell = renamed._repr_html_()
    require_sound(parse_cell(cell), cell)
    assert HOSTILE not in cell
    assert words_of(parse_cell(cell)).count(HOSTILE) == 2


def test_power_at_rest_is_an_energy_of_no_layer(tmp_path: Path) -> None:
    texts = []
    for hardware in ("hmc", "hmc-physical"):
        file = tmp_path / f"{hardware}.json"
        plan_model("lenet-c", hardware=hardware).write(file)
        texts.append(words_of(parse_page(page(gather_report(file), "0.0"))))
    assert [AT_REST in text for text in texts] == [False, True]
