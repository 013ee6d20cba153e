import sys
from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture


@pytest.fixture
def say(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Writes a line to the terminal where benchmarks are run by hand."""

    def write(line: str) -> None:
        if benchmark.enabled:
            with capsys.disabled():
                sys.stdout.write(f"\n{line}\n")

    return write
