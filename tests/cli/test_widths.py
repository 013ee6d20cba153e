"""What commands print is never wider than the terminal, and every number in it is whole."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from hypar import load_model, plan_model
from hypar.cli.commands import models
from hypar.cli.main import main
from hypar.units import amount, format_bytes, format_count, format_joules, format_seconds
from tests.effort import late
from tests.prose import unbroken

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


ROOT = Path(__file__).parents[2]
NETWORKS = ("vgg16", "resnet50")
WIDTHS = (80, 60)

SHOWN = re.compile(r"^(?:\$ hypar|.* \.venv/bin/hypar) (.+)$", re.MULTILINE)
"""The commands that a page shows."""

OTHERS = (
    "plan {} --array 4x8",
    "plan {} --full",
    "plan {} --levels 8 --strategy accpar",
    "plan {} --hardware hmc --strategy optimal",
    "plan {} --hardware tpu-v2-v3 --strategy accpar",
    "plan {} --stages 4 --levels 2 --batch 32 --hardware hmc",
    "plan {} --hardware hmc --set overlap=full --cost time --chunks best",
    "compare {} --levels 4",
    "compare {} --levels 10",
    "compare {} --hardware hmc --strategy hypar --strategy mp",
    "compare {} --hardware hmc --levels 2 --strategy hypar --cost time",
    "compare {} --hardware hmc --levels 2 --strategy hypar --strategy deepa",
    "sweep {} --hardware hmc --levels 0..4 --strategy dp,hypar,accpar",
    "sweep {} --hardware hmc,tpu-v2 --levels 2,5 --batch 32,4096 --vary duplex=full,half",
    "models {}",
    "models",
    "strategies",
    "hardware",
    "hardware hmc",
    "hardware tpu-v2-v3",
    "hardware eyeriss --model {}",
    "pipeline {} --batch 32 --hardware h100-8x",
    "pipeline {} --stages 6 --batch 8 --hardware hmc",
    "overlap {} --hardware p100-4x4",
    "overlap {} --hardware p100-4x4 --chunks 4",
    "overlap {} --hardware tpu-v2 --chunks 2 --exchange independent",
)
"""Commands beside those of the pages, each over every network."""

ONE = {
    "vgg16": ("explore vgg16 --vary fc1 --vary conv5_3 --hardware hmc", "plan vgg16 --strategy optimal --explain fc1"),
    "resnet50": ("explore resnet50 --vary fc --levels 3 --hardware hmc", "plan resnet50 --explain layer4.0.conv1"),
}  # fmt: skip
"""Commands that name layers."""


QUICK = ("models", "overlap")
"""Beginnings of the commands that the quick run tries over the residual network too."""


def marked(names: list[str]) -> list[object | ParameterSet]:
    """The commands, of which the quick run tries few over a residual network, and each over the other."""
    return late(names, *(name for name in names if "resnet50" in name and not name.startswith(QUICK)))


def of_page(page: str, network: str) -> list[str]:
    """The commands of a page, with a network in place of the page's own."""
    found = SHOWN.findall((ROOT / page).read_text(encoding="utf-8"))
    named = [
        re.sub(r"\blenet-c\b|\balexnet\b|\bmlp\.yaml|models/vgg16\.yaml", network, text) for text in found
    ]
    fitting = [text.replace("fc1", "fc" if network == "resnet50" else "fc1") for text in named]
    return [
        text
        for text in fitting
        if not text.startswith(("check", "diff"))
        and "-o plan.json" not in text
        and "plan.json --picture" not in text
    ]


def commands() -> list[str]:
    """Every command, once."""
    found = []
    for network in NETWORKS:
        found += [*of_page("README.md", network), *of_page("docs/quickstart.md", network)]
        found += [text.format(network) for text in OTHERS]
        found += ONE[network]
    return [*dict.fromkeys(found)]


STUDIES = {
    "plan": ("plan_model", "notes", "baseline_scores"),
    "compare": ("compare_strategies",),
    "sweep": ("sweep_model",),
    "explore": ("explore_model",),
    "pipeline": ("pipeline_model",),
    "overlap": ("overlap_model",),
}
"""What commands call that takes long, and gives the same for every output."""


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A function that returns what one command prints with some more options, at a width."""
    monkeypatch.setattr(models, "load_model", cache(load_model))
    for command, names in STUDIES.items():
        module = importlib.import_module(f"hypar.cli.commands.{command}")
        for name in names:
            monkeypatch.setattr(module, name, once(getattr(module, name)))

    def run(command: str, *options: str, width: int = 80) -> str:
        result = CliRunner().invoke(main, [*shlex.split(command), *options], env={"COLUMNS": str(width)})
        assert result.exit_code == 0, (command, result.stderr)
        return result.stdout

    return run


def once(study: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives the first result of a study again."""
    results: list[Any] = []

    def called(*arguments: Any, **options: Any) -> Any:
        if not results:
            found = study(*arguments, **options)
            results.append([*found] if isinstance(found, Iterator) else found)
        return results[0]

    return called


def score_numbers(score: dict[str, Any]) -> Iterator[str]:
    """The numbers of a score that a page of it shows."""
    yield format_seconds(score["time_s"])
    yield format_bytes(score["communication_bytes"])
    yield format_bytes(score["memory_bytes"])
    for place, shown in (("time", format_seconds), ("communication", format_bytes), ("memory", format_bytes)):
        yield from (shown(number) for number in score[place].values() if number)
    if score["energy_j"] is not None:
        yield format_joules(score["energy_j"])
        yield from (format_joules(number) for number in score["energy"].values() if number)
    for group in score.get("groups") or ():
        yield from (format_seconds(group[f"{name}_s"]) for name in ("computing", "communicating", "idle"))
        yield format_bytes(group["memory_bytes"])


def plan_numbers(plan: dict[str, Any], *, full: bool) -> Iterator[str]:
    """The numbers of a plan that a page of it shows."""
    unit = plan["cost"]["unit"]
    yield amount(plan["cost"]["value"], unit)
    if plan.get("score"):
        yield from score_numbers(plan["score"])
    elif full:
        for layer in plan["splits"][0]["choices"]:
            yield amount(sum(split["costs"][layer] for split in plan["splits"]), unit)
    if not plan.get("score"):
        yield from (amount(split["cost"], unit) for split in plan["splits"])


def totals_numbers(row: dict[str, Any]) -> Iterator[str]:
    """The numbers of a point or a run."""
    if row["time_s"] is not None:
        yield from (format_seconds(row["time_s"]), format_bytes(row["communication_bytes"]))
        yield "-" if row["energy_j"] is None else format_joules(row["energy_j"])


def of_plan(found: Any, arguments: list[str]) -> Iterator[str]:
    plan = found.get("plan", found)
    yield from plan_numbers(plan, full="--full" in arguments or len(plan["splits"][0]["choices"]) <= 24)
    for one in found.get("explanation", {}).get("layers", ()):
        for each in one["alternatives"][:3]:
            yield from (amount(each[key], plan["cost"]["unit"]) for key in ("received", "sent", "total"))


def of_comparison(found: Any, _: list[str]) -> Iterator[str]:
    for row in found:
        score = row["plan"].get("score")
        if score:
            yield from totals_numbers(score)
            continue
        counted, unit = row["counted"], row["cost"]["unit"]
        yield from (amount(cost, unit) for cost in (counted["value"], *counted["levels"]))


def of_sweep(found: Any, _: list[str]) -> Iterator[str]:
    for row in found:
        yield from totals_numbers(row)
        yield from [format_bytes(row["memory_bytes"])] if row["time_s"] else []


def of_exploration(found: Any, _: list[str]) -> Iterator[str]:
    for row in found[:10]:
        yield from totals_numbers(row)


def of_models(found: Any, arguments: list[str]) -> Iterator[str]:
    for row in found:
        counts = ("parameters", "macs", "flop") if arguments else ("parameters", "macs_per_sample")
        yield from (format_count(row[key]) for key in counts)


def of_hardware(found: Any, arguments: list[str]) -> Iterator[str]:
    if "--model" in arguments:
        for row in found:
            yield from (format_seconds(row["time_s"]), format_count(row["macs"]))
            yield from (f"{number:.4g}" for number in row["mapping"].values())
            yield from (format_count(number) for number in row["accesses"].values())
    elif arguments:
        rates = (row["value"] for row in found if row["unit"] in {"B/s", "Hz"})
        yield from (format_count(rate) for rate in rates if rate >= 1000)
    else:
        for machine in (each for row in found for each in row.get("groups", [row])):
            yield str(machine["devices"])
            yield from (f"{format_bytes(rate)}/s" for rate in machine["link_bytes_per_s"])
            yield from [] if machine["memory_bytes"] is None else [format_bytes(machine["memory_bytes"])]


def of_pipeline(found: Any, _: list[str]) -> Iterator[str]:
    score = found["score"]
    yield from (
        format_bytes(score["memory"][key]) for key in ("weights", "gradients", "activations", "errors")
    )
    yield format_bytes(score["communication"]["stages"])
    for stage, group in zip(found["stages"]["stages"], score["groups"], strict=True):
        yield format_bytes(group["memory_bytes"])
        yield from map(format_seconds, (stage["busy_s"], group["idle_s"]))


def of_overlap(found: Any, _: list[str]) -> Iterator[str]:
    yield from (format_seconds(found[key]) for key in ("step_s", "typical_s", "forward_s", "exchange_s"))
    for chunk in found["chunks"]:
        yield from (format_seconds(chunk[f"{key}_s"]) for key in ("ready", "start", "end"))
        yield format_bytes(chunk["bytes"])


NUMBERS: dict[str, Callable[[Any, list[str]], Iterator[str]]] = {
    "plan": of_plan,
    "compare": of_comparison,
    "sweep": of_sweep,
    "explore": of_exploration,
    "models": of_models,
    "strategies": lambda found, _: (row["space"] for row in found),
    "hardware": of_hardware,
    "pipeline": of_pipeline,
    "overlap": of_overlap,
}
"""The numbers that each command shows, from its JSON output and its arguments."""


def check(text: str, width: int, expected: set[str]) -> None:
    """Check that no line of a text is wider, and that numbers stand whole in it."""
    assert max(map(cell_len, text.splitlines())) <= width
    assert "\u2026" not in text
    words = unbroken(text)
    assert not [
        number for number in expected if not re.search(rf"(?<![\w.]){re.escape(number)}(?![\w.]*\d)", words)
    ]


@pytest.mark.parametrize("command", marked(commands()))
def test_no_line_is_wider_and_every_number_is_whole(
    command: str, printed: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *arguments = shlex.split(command)
    expected = {*NUMBERS[name](json.loads(printed(command, "--json")), arguments)}
    assert expected
    for width in WIDTHS:
        check(printed(command, width=width), width, expected)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("network", NETWORKS)
def test_scores_and_stored_plans_are_no_wider(network: str, width: int, tmp_path: Path) -> None:
    file = str(tmp_path / "p.json")
    plan = plan_model(network, hardware="hmc", batch=32)
    plan.write(file)
    for command in (["score", file], ["show", file], ["show", file, "--full"]):
        text = CliRunner().invoke(main, command, env={"COLUMNS": str(width)}).stdout
        assert plan.score is not None
        check(text, width, {*score_numbers(plan.score.to_data())})
    rows = json.loads(CliRunner().invoke(main, ["score", file, "--layers", "--json"]).stdout)
    text = CliRunner().invoke(main, ["score", file, "--layers"], env={"COLUMNS": str(width)}).stdout
    check(text, width, {*of_hardware(rows, ["--model"])})


@pytest.mark.parametrize("strategy", ["hypar", pytest.param("accpar", marks=pytest.mark.slow)])
def test_a_plan_of_resnet152_fits_a_screen_of_40_lines(printed: Callable[..., str], strategy: str) -> None:
    text = printed(f"plan resnet152 --levels 4 --hardware hmc --strategy {strategy}")
    assert len(text.splitlines()) <= 40
    assert "layer3 x145 " in text
    assert "all 206 layers " in text
    full = printed(f"plan resnet152 --levels 4 --hardware hmc --strategy {strategy} --full")
    assert sum(line.startswith("layer3.") for line in full.splitlines()) == 145
