"""What commands print is never wider than the terminal, and every number in it is whole."""

import re
import shlex

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from hypar import plan_model
from hypar.cli.main import main
from tests.effort import late
from tests.prose import unbroken

NETWORKS = ("vgg16", "resnet50")
WIDTHS = (80, 60)

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
    "plan {} --stages 4 --levels 0 --schedule layer-block --batch 32 --hardware h100-8x",
    "plan {} --strategy dp --array 4x4 --hardware p100-4x4 --chunks 4",
)
"""Commands, each over every network."""

ONE = {
    "vgg16": ("explore vgg16 --vary fc1 --vary conv5_3 --hardware hmc --levels 3", "plan vgg16 --strategy optimal --explain fc1"),
    "resnet50": ("explore resnet50 --vary fc --levels 3 --hardware hmc", "plan resnet50 --explain layer4.0.conv1"),
}  # fmt: skip
"""Commands that name layers."""


def commands() -> list[str]:
    found = [text.format(network) for network in NETWORKS for text in OTHERS]
    return [*dict.fromkeys([*found, *(command for network in NETWORKS for command in ONE[network])])]


def printed(command: str, *options: str, width: int = 80) -> str:
    """What a command prints at a width."""
    result = CliRunner().invoke(main, [*shlex.split(command), *options], env={"COLUMNS": str(width)})
    assert result.exit_code == 0, (command, result.stderr)
    return result.stdout


NUMBER = re.compile(r"(?<![\w.])\d(?:[\d,.]*\d)?(?!\w)")


def check(text: str, width: int, wide: str) -> None:
    """Check that no line of a text is wider, and that the numbers of a wide text stand whole in it."""
    assert max(map(cell_len, text.splitlines())) <= width
    assert "\u2026" not in text
    assert {*NUMBER.findall(unbroken(wide))} <= {*NUMBER.findall(unbroken(text))}


@pytest.mark.parametrize("command", late(commands(), *(own for own in commands() if "resnet50" in own)))
@pytest.mark.usefixtures("folder")
def test_no_line_is_wider_and_every_number_is_whole(command: str) -> None:
    wide = printed(command, width=300)
    assert wide
    for width in WIDTHS:
        check(printed(command, width=width), width, wide)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.usefixtures("folder")
def test_scores_and_stored_plans_are_no_wider(network: str) -> None:
    plan_model(network, hardware="hmc", batch=32).write("p.json")
    plan_model("sfc", hardware="hmc").write("s.json")
    shown = ["score p.json", "show p.json", "show p.json --full", "score p.json --layers"]
    for command in (*shown, "verify s.json --count", "verify s.json --count --full"):
        for width in WIDTHS:
            check(printed(command, width=width), width, printed(command, width=300))


@pytest.mark.parametrize("strategy", ["hypar", pytest.param("accpar", marks=pytest.mark.slow)])
def test_a_plan_of_resnet152_fits_a_screen_of_40_lines(strategy: str) -> None:
    text = printed(f"plan resnet152 --levels 4 --hardware hmc --strategy {strategy}")
    assert len(text.splitlines()) <= 40
    assert "layer3 x145 " in text
    assert "all 206 layers " in text
    full = printed(f"plan resnet152 --levels 4 --hardware hmc --strategy {strategy} --full")
    assert sum(line.startswith("layer3.") for line in full.splitlines()) == 145
