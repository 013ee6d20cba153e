"""Documents of networks and machines: the same words at the terminal, in notebooks and in Markdown, and data as ``--json``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import hypar
from hypar.machine.load import load_machine
from hypar.reports.renderers import fragment, rendered, to_markdown
from hypar.reports.text import plain, render
from tests.kit import output
from tests.reports.documents import parse_cell

if TYPE_CHECKING:
    from collections.abc import Callable

SHOWN: dict[str, Callable[[], Any]] = {
    "models resnet18": lambda: hypar.load_model("resnet18"),
    "models llama3-8b": lambda: hypar.load_model("llama3-8b"),
    "hardware hmc": lambda: load_machine("hmc"),
    "hardware tpu-v2-v3": lambda: load_machine("tpu-v2-v3"),
}


@pytest.mark.parametrize("command", SHOWN)
def test_what_a_command_prints_is_what_a_notebook_shows(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "10000")
    result = SHOWN[command]()
    document = result.document()
    printed = plain(render(document, 10_000))
    assert output(*command.split()) == printed
    cell = "".join(parse_cell(result._repr_html_()).itertext())
    page = to_markdown(document)
    for word in printed.split():
        assert word in cell.replace("\u202f", " ")
        assert word in page.replace("\\", "").replace("&lt;", "<").replace("&amp;", "&")
    assert fragment(document) == result._repr_html_()


@pytest.mark.parametrize("command", SHOWN)
def test_data_are_those_of_json(command: str) -> None:
    result = SHOWN[command]()
    data = json.loads(output(*command.split(), "--json"))
    rows = json.loads(json.dumps(result.document().records()))
    assert sorted(map(str, rows)) == sorted(map(str, data))
    assert result.to_frame().columns.tolist() == [*data[0]]
    assert len(rendered(result.document(), "csv").splitlines()) >= 1 + len(data)
