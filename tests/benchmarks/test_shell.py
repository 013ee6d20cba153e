"""What ``hypar plan`` costs from the shell, beside a Python that only imports what it stands on."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

COMMANDS = {
    "imports only": ["-c", "import click, numpy, pydantic.main, yaml, rich.console, rich.table"],
    "hypar plan vgg16": ["-m", "hypar", "plan", "vgg16", "--levels", "4"],
    "hypar --help": ["-m", "hypar", "--help"],
}


@pytest.mark.benchmark(min_rounds=10)
@pytest.mark.parametrize("name", COMMANDS)
def test_from_the_shell(benchmark: BenchmarkFixture, name: str) -> None:
    """The second is meant to stay within 1.3 times the first, and ``--help`` within 0.6 times the second."""
    done = benchmark(subprocess.run, [sys.executable, *COMMANDS[name]], capture_output=True, check=False)
    assert done.returncode == 0
