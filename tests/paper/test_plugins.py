"""Pages of the papers that are still plug-ins."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypar.registry import plugin_names
from hypar.studies.papers.base import load_reproduction

DOCS = Path(__file__).parents[2] / "docs" / "reproductions"


@pytest.mark.slow
@pytest.mark.parametrize("name", plugin_names("reproductions"))
def test_the_page_is_current(name: str) -> None:
    page = load_reproduction(name).run(lambda _done, _of: None)
    assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == page.markdown(pictures=True)
