"""The examples on a page write their files to a folder of their own, where the page's own files lie."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

FILE = re.compile(r'^```\w+ title="(?P<name>\S+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def own_folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each page in a folder with nothing but the files that its blocks name."""
    monkeypatch.chdir(tmp_path)
    page = request.path.read_text(encoding="utf-8")
    if ".to_frame()" in page:
        pytest.importorskip("pandas")
    for block in FILE.finditer(page):
        (tmp_path / block["name"]).write_text(block["text"], encoding="utf-8")
