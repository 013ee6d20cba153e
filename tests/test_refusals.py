"""Wrong input gets one clear line and leaves nothing behind.

Each file of ``tests/refusals`` is a list of groups of cases. A group has

- ``run``: the commands, split as a shell would; in a group without a file a case's name follows them,
- ``file``: the name of the file that a case is about, and ``good``: its text, or the ``hypar`` command that prints it,
- ``beside``: further files by name, likewise a text or a command,
- ``status``: the exit status, 3 unless said,
- ``cases``: by name, what is said, or a mapping of ``says`` and what the file holds: ``text``; ``more``, the lines behind
  the good ones; ``for``, the parts of the good text that stand there once, and ``put`` in their place; or ``set``, values
  by their place in a JSON file, and ``drop``, the places without one.

What is said is the whole of stderr behind ``error: ``, where ``...`` stands for any text; a list has a line for each of
several faults.
"""

import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit import held, run

pytestmark = pytest.mark.usefixtures("folder")

FOLDER = Path(__file__).parent / "refusals"
Group = dict[str, Any]


def cases() -> list[Any]:
    """Return a parameter of each case and command: the command, the files, what is said, the status."""
    found = []
    for file in sorted(FOLDER.glob("*.yaml")):
        for number, group in enumerate(yaml.safe_load(file.read_text(encoding="utf-8"))):
            for name, case in group["cases"].items():
                found += [
                    pytest.param(words, group, case, id=f"{file.stem}-{number}-{words[0]}-{name}"[:160])
                    for words in commands(group, name)
                ]
    return found


def commands(group: Group, name: str) -> list[list[str]]:
    lines = group.get("run", "")
    lines = [lines] if isinstance(lines, str) else lines
    options = [] if "file" in group else shlex.split(name)
    return [[*shlex.split(line), *options] for line in lines]


@cache
def written(command: str) -> str:
    result = run(*shlex.split(command))
    assert result.exit_code == 0, result.stderr
    return result.stdout


def content(text: str) -> str:
    return written(text.removeprefix("hypar ")) if text.startswith("hypar ") else text


def changed(good: str, case: dict[str, Any]) -> str:
    """Return the text of the file that a case is about."""
    if "text" in case:
        text: str = case["text"]
        return text
    if "more" in case:
        return good + str(case["more"])
    if "put" in case:
        parts, puts = ([value] if isinstance(value, str) else value for value in (case["for"], case["put"]))
        for part, put in zip(parts, puts, strict=True):
            assert good.count(part) == 1
            good = good.replace(part, put)
        return good
    data = json.loads(good)
    for place, value in [*case.get("set", {}).items(), *((place, ...) for place in case.get("drop", ()))]:
        inside, *keys = data, *re.findall(r"[^.\[\]]+", place)
        for key in keys[:-1]:
            inside = inside[int(key) if isinstance(inside, list) else key]
        last = int(keys[-1]) if isinstance(inside, list) else keys[-1]
        if value is ...:
            del inside[last]
        else:
            inside[last] = value
    return json.dumps(data)


def said(case: Any) -> str:
    says = case["says"] if isinstance(case, dict) else case
    lines = [says] if isinstance(says, str) else says
    return "".join("error: " + ".*".join(map(re.escape, line.split("..."))) + "\n" for line in lines)


def put_files(group: Group, case: Any) -> dict[str, bytes]:
    """Write the files of a case, and return all that the folder holds."""
    for name, text in group.get("beside", {}).items():
        Path(name).write_text(content(text), encoding="utf-8")
    if "file" in group:
        text = changed(content(group.get("good", "")), case)
        Path(group["file"]).write_bytes(text.encode() if isinstance(text, str) else text)
    return held()


@pytest.mark.parametrize(("words", "group", "case"), cases())
def test_wrong_input_is_refused_in_one_line(words: list[str], group: Group, case: Any) -> None:
    before = put_files(group, case)
    result = run(*words)
    assert re.fullmatch(said(case), result.stderr), result.stderr
    assert (result.exit_code, result.stdout) == (group.get("status", 3), "")
    assert len(result.stderr) < 1000 * len(result.stderr.splitlines())
    assert held() == before
