"""The report of a plan: valid, whole, the same twice, safe whatever the names in it, and true to the plan's score."""

import json
import re
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hypar.cli.main import main
from hypar.network.graph import load_model
from hypar.plan.plan import read_plan
from hypar.planning.planner import plan_model
from hypar.registry import data_folder
from hypar.reports.report import AT_REST, CLOSEST, compared, read_reported, report_page
from hypar.reports.words import parts_of
from hypar.sharding.dims import WORDS
from hypar.units import format_bytes, format_seconds
from tests.effort import late
from tests.reports.documents import parse_page, require_sound, words_of

PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "vgg16": ("vgg16", {"hardware": "hmc"}),
    "resnet50": ("resnet50", {"strategy": "deepa", "array": [16], "hardware": "p100-4x4"}),
    "mixed": ("lenet-c", {"strategy": "accpar", "hardware": "tpu-v2-v3", "levels": 3}),
    "sfc": ("sfc", {"stages": 4, "levels": 2, "hardware": "hmc"}),
    "microbatches": ("sfc", {"hardware": "hmc", "stages": 2, "array": [4], "microbatches": 8}),
    "bare": ("alexnet", {"strategy": "optimal"}),
    "deep": ("resnet18", {"levels": 4}),
    "overlapped": ("lenet-c", {"hardware": "h100-8x", "levels": 3, "chunks": "best", "pins": ["fc1=dp"]}),
    "unfit": ("vgg16", {"strategy": "mp", "hardware": "hmc"}),
    "at rest": ("lenet-c", {"hardware": "hmc-physical"}),
    "alone": ("lenet-c", {"stages": 2, "levels": 0, "hardware": "hmc"}),
    "joint": ("lenet-c", {"search": "joint", "space": "all", "inter_weight": 0.5}),
    "refined": ("lenet-c", {"hardware": "hmc", "levels": 3, "refine": True}),
    "timed": ("lenet-c", {"hardware": "hmc", "cost": "time"}),
    "adam": ("lenet-c", {"stages": 2, "levels": 1, "hardware": "hmc", "optimizer": "adam"}),
    "no energies": ("lenet-c", {"hardware": "p100-4x4"}),
}
ORDER = ["headline", "plan", "costs", "step", "memory", "strategies", "why", "claim", "machine", "again"]
OF_A_STEP = {"costs", "step", "memory", "machine"}


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, str]]:
    """Return a function that writes a plan and its page once, each plan beside nothing else."""

    @cache
    def written(name: str) -> tuple[Path, str]:
        model, asked = PLANS[name]
        file = tmp_path_factory.mktemp("plans") / f"{model}.plan.json"
        plan_model(model, **asked).write(file)
        return file, report_page(read_reported(file), "0.0")

    return written


@pytest.fixture(scope="module", params=late(PLANS, "resnet50", "deep", "vgg16", "adam", "no energies"))
def written(request: pytest.FixtureRequest, page_of: Callable[[str], tuple[Path, str]]) -> tuple[Path, str]:
    return page_of(request.param)


def text_of(written: tuple[Path, str]) -> str:
    return " ".join(words_of(parse_page(written[1])).split())


def test_a_page_is_valid_and_loads_nothing(written: tuple[Path, str]) -> None:
    root = parse_page(written[1])
    require_sound(root, written[1])
    assert root.get("lang") == "en"
    assert len([*root.iter("h1")]) == len([*root.iter("main")]) == 1
    ran = read_plan(written[0]).score is not None
    named = [element.get("id") for element in root.iter() if element.get("id")]
    missing = set() if ran else OF_A_STEP
    missing |= set() if read_plan(written[0]).splits else {"why"}
    assert named == [own for own in ORDER if own not in missing]
    title = next(root.iter("title")).text or ""
    assert title == "".join(next(root.iter("h1")).itertext())
    assert "a step" in title
    assert len(written[1].encode()) < 300_000


def test_a_page_names_every_row_of_layers_and_every_choice(written: tuple[Path, str]) -> None:
    plan, text = read_plan(written[0]), text_of(written)
    for row in {part.title for part in parts_of(plan)}:
        assert row in text
    for split in plan.splits:
        for layer in plan.layers:
            for dim, degree in split.choice(layer).degrees:
                found = {*WORDS[dim], f"{WORDS[dim][2]}{degree}"}
                assert any(re.search(rf"(?<!\w){word}(?!\w)", text) for word in found), (layer, dim, degree)


def test_the_numbers_are_the_scores(written: tuple[Path, str]) -> None:
    score, text = read_plan(written[0]).score, text_of(written)
    if score is None:
        return
    amounts = [
        format_seconds(score.time_s),
        format_bytes(score.communication_bytes),
        format_bytes(score.memory_bytes),
    ]
    amounts += [format_bytes(number) for number in score.communication.values()]
    for amount in amounts:
        assert amount in text
    assert ("does not fit" in text.partition("Plan A row")[0]) is not score.fits


def test_the_strategies_have_the_plan_among_them(written: tuple[Path, str]) -> None:
    table = re.findall(r"<tr[^>]*><th[^>]*>([^<]*)</th>(.*?)</tr>", written[1])
    assert sum(">the plan<" in row for _, row in table) == 1
    assert {"hypar", "owt"} <= {name.removesuffix(" as planned") for name, _ in table}
    strategies = written[1].partition('id="strategies"')[2].partition("</table>")[0]
    names = re.findall(r"<tr[^>]*><th[^>]*>([^<]*)</th>", strategies)
    assert len(names) == len({*names})


def test_strategies_train_as_the_plan_does(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"hardware": "h100-8x", "levels": 1, "optimizer": "adam", "precision": "bf16"}
    asked |= {"zero": 1, "microbatches": 2, "batch": 8}
    plan_model("lenet-c", **asked).write(tmp_path / "plan.json")
    alone = plan_model("lenet-c", strategy="dp", **asked).score
    found = compared(read_reported(tmp_path / "plan.json")).scores["dp"]
    assert found
    assert alone
    assert (found.time_s, found.memory_bytes) == (alone.time_s, alone.memory_bytes)


def test_the_command_leads_to_the_plan_again(
    written: tuple[Path, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = next(parse_page(written[1]).iter("pre")).text or ""
    program, *words = shlex.split(commands.splitlines()[0])
    assert program == "hypar"
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code
    capsys.readouterr()
    assert read_plan(tmp_path / written[0].name) == read_plan(written[0])


def test_a_page_is_the_same_twice(page_of: Callable[[str], tuple[Path, str]]) -> None:
    for name in ("mixed", "sfc"):
        file, text = page_of(name)
        assert report_page(read_reported(file), "0.0") == text


NOT_KNOWN = "Time, energy and memory are not known: no machine is named;"
SAID: list[tuple[str, str, int]] = [
    ("bare", NOT_KNOWN, 1),
    ("sfc", "sfc on hmc: 195 ms a step, fits, ", 1),
    ("sfc", "of the strategies compared, optimal is fastest, ", 1),
    ("unfit", "does not fit (", 1),
    ("alone", "layer stage energy time computes receives conv1 1", 1),
    ("alone", "in flight", 1),
    ("alone", "Why this cut", 0),
    ("adam", "memory weights gradients optimizer activations errors buffers received 1", 1),
    ("timed", CLOSEST.text, 1),
    ("microbatches", CLOSEST.text, 0),
    ("no energies", "energy not known: the machine's file gives none", 1),
    ("at rest", AT_REST.text, 1),
    ("refined", AT_REST.text, 0),
]
"""Words of the page of a plan, and how often they stand in it, at least; 0 for not at all."""


@pytest.mark.parametrize(("name", "words", "count"), SAID)
def test_a_page_says(page_of: Callable[[str], tuple[Path, str]], name: str, words: str, count: int) -> None:
    found = text_of(page_of(name)).count(words)
    assert found >= count if count else not found


def test_the_timeline_of_stages_has_the_numbers_of_microbatches(
    page_of: Callable[[str], tuple[Path, str]],
) -> None:
    section = page_of("microbatches")[1].partition('id="step"')[2].partition("</figure>")[0]
    labels = re.findall(r">(\d)</text>", section)
    assert {*labels} == {*"12345678"}
    assert len(labels) > 8


HOSTILE = """<b>&"'<script>x"""


def test_names_from_files_are_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, machine = tmp_path / f"{HOSTILE}.yaml", tmp_path / f"m{HOSTILE}.yaml"
    model.write_text((data_folder("models") / "lenet-c.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    text = (data_folder("hardware") / "hmc.yaml").read_text(encoding="utf-8")
    machine.write_text(text.replace('"HyPar, section 6.1: a cube"', json.dumps(HOSTILE)), encoding="utf-8")
    plan = plan_model(load_model(model), levels=2, hardware=str(machine))
    plan.write(tmp_path / "odd.plan.json")
    text = report_page(read_reported(tmp_path / "odd.plan.json"), HOSTILE)
    root = parse_page(text)
    require_sound(root, text)
    assert HOSTILE not in text
    # The title, the heading, the commands, the machine's sources, the footer.
    assert words_of(root).count(HOSTILE) >= 7


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "small.plan.json"
    plan_model("lenet-c", levels=2).write(file)
    return file


def test_a_page_goes_to_a_file_or_to_stdout(plan: Path) -> None:
    written = CliRunner().invoke(main, ["report", plan.name, "-o", "plan.html"])
    assert (written.exit_code, written.stdout, written.stderr) == (0, "", "wrote plan.html\n")
    text = (plan.parent / "plan.html").read_text(encoding="utf-8")
    assert "hypar plan lenet-c --levels 2 -o small.plan.json" in words_of(parse_page(text))
    for asked in (["-o", "-"], []):
        printed = CliRunner().invoke(main, ["report", plan.name, *asked])
        assert (printed.exit_code, printed.stdout) == (0, text)
    assert sorted(file.name for file in plan.parent.iterdir()) == ["plan.html", "small.plan.json"]


def test_a_plan_is_reported_on_a_machine_that_is_named(plan: Path) -> None:
    result = CliRunner().invoke(main, ["report", plan.name, "--hardware", "hmc", "--set", "duplex=half"])
    assert result.exit_code == 0
    text = text_of((plan, result.stdout))
    assert "lenet-c on hmc duplex=half: " in text
    assert "hypar report small.plan.json --hardware hmc --set duplex=half -o plan.html" in text
    plan_model("lenet-c", levels=2, hardware="hmc").write(plan)
    other = CliRunner().invoke(main, ["report", plan.name, "--hardware", "tpu-v3"])
    assert "The plan itself was scored on hmc." in text_of((plan, other.stdout))
