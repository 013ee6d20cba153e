"""What ``hypar plan`` costs from the shell, beside a Python that only imports what it stands on."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

_MODULES = """
import sys
from hypar.cli.main import main
main(["plan", "vgg16", "--levels", "4"], standalone_mode=False)
own = ("hypar", "__main__", "_sysconfigdata", "_cython", "cython_runtime")
print("import", *[", ".join(name for name in sys.modules if not name.startswith(own))], file=sys.stderr)
"""
"""Prints the import of every module that the command loads, but hypar's own and those that an extension makes."""

_INSTALLED = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""The environment with the modules compiled, as pip installs them."""


def _imports() -> str:
    """The import of all libraries of ``hypar plan``, which its time is compared with."""
    done = subprocess.run(
        [sys.executable, "-c", _MODULES], env=_INSTALLED, capture_output=True, text=True, check=True
    )
    return done.stderr.strip()


def _seconds(arguments: list[str]) -> tuple[float, float]:
    """CPU and wall seconds of one run."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=_INSTALLED, capture_output=True, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def test_a_plan_beside_its_imports(benchmark: BenchmarkFixture, say: Callable[[str], None]) -> None:
    """The best of twenty runs of each, in turns: the plan is meant to stay within 1.3 times the imports."""
    imports, plan = ["-c", _imports()], COMMANDS["hypar plan vgg16"]
    rounds = 20 if benchmark.enabled else 1
    runs = [(_seconds(imports), _seconds(plan)) for _ in range(rounds)]
    best = [[min(times) for times in zip(*command, strict=True)] for command in zip(*runs, strict=True)]
    cpu, wall = (of_plan / of_imports for of_imports, of_plan in zip(*best, strict=True))
    say(f"hypar plan vgg16 --levels 4: {cpu:.2f} times its imports in CPU, {wall:.2f} in wall time")
    benchmark(lambda: None)
    assert min(cpu, wall) > 0


COMMANDS = {
    "imports only": ["-c", "import click, numpy, pydantic.main, yaml"],
    "hypar plan vgg16": ["-m", "hypar", "plan", "vgg16", "--levels", "4"],
    "hypar --help": ["-m", "hypar", "--help"],
}


@pytest.mark.benchmark(min_rounds=10)
@pytest.mark.parametrize("name", COMMANDS)
def test_from_the_shell(benchmark: BenchmarkFixture, name: str) -> None:
    """The second is meant to stay within 1.3 times the first, and ``--help`` within 0.6 times the second."""
    done = benchmark(subprocess.run, [sys.executable, *COMMANDS[name]], capture_output=True, check=False)
    assert done.returncode == 0
