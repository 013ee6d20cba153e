"""Plugin of the whole suite, as a ``conftest.py`` holds for its own folder: which modules have examples to run."""

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Import no module for the examples of its docstrings that has none."""
    found = yield
    return [each for each in found if not isinstance(each, DoctestModule) or _has_examples(each.path)]


def _has_examples(path: Path) -> bool:
    return ">>> " in path.read_text(encoding="utf-8")
