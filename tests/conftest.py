"""Options, profiles and slow tests of the whole suite."""

import gc
import os
import sys
from collections.abc import Generator, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from hypar.reports import terminal
from tests import doctests
from tests.effort import LONG, SHORT
from tests.kit import folder  # noqa: F401 (as above)
from tests.solvers import more_solvers  # noqa: F401 (a fixture of all tests)

# Both workers, and the programs that tests start, would compile every module again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Plans and cost graphs have no cycles, so that looking for garbage often finds little.
gc.set_threshold(50_000, 20, 50)

QUICK = ("not slow", "not long")
"""Marker expressions of runs with few examples: the quick one, which pyproject.toml gives, and that of the quick and most slow tests."""

WITH_TORCH = {
    "test_kernels", "test_lifetimes_in_torch", "test_profiling", "test_torch_module", "test_windows",
}  # fmt: skip
"""Test modules that import PyTorch."""

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="Rewrite generated files instead of comparing."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile: few examples in the runs of ``QUICK``, all of them in any other. Output is 80 columns wide."""
    os.environ["COLUMNS"] = "80"
    parent = settings.get_profile("ci" if os.environ.get("CI") else "local")
    settings.register_profile("quick", parent=parent, max_examples=SHORT, derandomize=True)
    settings.register_profile("long", parent=parent, max_examples=LONG)
    settings.load_profile("quick" if config.option.markexpr in QUICK else "long")
    config.pluginmanager.register(doctests, "doctests")


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, None, None]:
    """Make no items of the slow combinations of values where slow tests are left out; there are thousands."""
    yield
    if metafunc.config.option.markexpr == QUICK[0]:
        calls = metafunc._calls
        metafunc._calls = [call for call in calls if not _slow(call.marks)] or calls[:1]


def _slow(marks: Iterable[pytest.Mark]) -> bool:
    return any(mark.name == "slow" for mark in marks)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow by its kind, and is run by hand alone: benchmarks, and random tests where they run at length.

    Tests that import PyTorch come first, so that one worker imports it and not both.
    """
    items.sort(key=lambda item: item.path.stem not in WITH_TORCH)
    for item in items:
        random = isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)
        if "benchmark" in getattr(item, "fixturenames", ()) or (
            random and config.option.markexpr not in QUICK
        ):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.long)
        if item.path.parent.name == "benchmarks":
            item.add_marker(pytest.mark.long)


def pytest_collection_finish() -> None:
    """Leave what is collected out of every later search for garbage."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Collect garbage a last time; pytest then does so ten times more, and need not go through all caches each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def no_lines_of_progress() -> None:
    """Keep stderr the same where a slow machine takes more than ten seconds."""
    terminal.EVERY_S = 1e6


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is an extra")
