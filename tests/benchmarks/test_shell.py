"""What ``hypar plan`` costs from the shell, beside a Python that only imports what it stands on."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

COMMANDS = {
    "imports only": ["-c", "import numpy, networkx, pydantic, click, rich"],
    "hypar plan vgg16": ["-m", "hypar", "plan", "vgg16", "--levels", "4"],
}


@pytest.mark.benchmark(min_rounds=10)
@pytest.mark.parametrize("name", COMMANDS)
def test_from_the_shell(benchmark: BenchmarkFixture, name: str) -> None:
    """The second is meant to stay within 1.5 times the first."""
    done = benchmark(subprocess.run, [sys.executable, *COMMANDS[name]], capture_output=True, check=False)
    assert done.returncode == 0
