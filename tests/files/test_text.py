"""Where a file's content goes: links, modes, devices and pipes, and what a failure leaves."""

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from hypar import plan_model, read_plan
from hypar.errors import DocumentError, PlanError, UnknownNameError, suggestion
from hypar.files.text import read_csv, require_writable, write
from hypar.files.validation import MOST_CHARACTERS, MOST_ENTRIES
from hypar.sharding.space import LONGEST_TEXT, parse_space
from tests.kit import names

pytestmark = pytest.mark.usefixtures("folder")


def mode(file: str) -> int:
    return stat.S_IMODE(Path(file).stat().st_mode)


@pytest.mark.parametrize("kept", [0o640, 0o600, 0o666, 0o755])
def test_a_file_keeps_its_mode(kept: int) -> None:
    Path("p").write_text("old")
    Path("p").chmod(kept)
    write(Path("p"), "new")
    assert (Path("p").read_text(), mode("p"), names()) == ("new", kept, ["p"])


@pytest.mark.parametrize(("umask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_mode_that_the_umask_leaves(umask: int, expected: int) -> None:
    before = os.umask(umask)
    try:
        write(Path("p"), "new")
    finally:
        os.umask(before)
    assert mode("p") == expected


def test_a_link_stays_and_its_target_is_written() -> None:
    Path("sub").mkdir()
    Path("sub/target").write_text("old")
    Path("sub/target").chmod(0o640)
    Path("sub/second").symlink_to("target")
    Path("link").symlink_to("sub/second")
    write(Path("link"), "new")
    assert Path("link").readlink() == Path("sub/second")
    assert (Path("sub/target").read_text(), mode("sub/target")) == ("new", 0o640)
    assert names() == ["link", "sub", "sub/second", "sub/target"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [("link", "Too many levels of symbolic links"), ("none/target", "No such file or directory")],
)
def test_a_link_that_leads_nowhere(target: str, reason: str) -> None:
    Path("link").symlink_to(target)
    for attempt in (require_writable, lambda file: write(file, "new")):
        with pytest.raises(DocumentError, match=rf"^link: cannot be written: {reason}$"):
            attempt(Path("link"))
    assert names() == ["link"]


@pytest.mark.parametrize("refused", ["sub", "sub/p"])
def test_what_may_not_be_written_is_told_first(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the system says: to root it allows everything."""
    Path("sub").mkdir()
    Path("sub/p").write_text("old")
    ask = os.access
    monkeypatch.setattr(
        os, "access", lambda file, *rest: Path(file) != Path(refused).resolve() and ask(file, *rest)
    )
    for attempt in (require_writable, lambda file: write(file, "new")):
        with pytest.raises(DocumentError, match=r"^sub/p: cannot be written: Permission denied$"):
            attempt(Path("sub/p"))
    assert (Path("sub/p").read_text(), names()) == ("old", ["sub", "sub/p"])


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
def test_an_interrupt_leaves_the_old_file_and_no_other(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a step and after it, as a signal may come."""
    Path("p").write_text("old")
    home: object = os if step == "fsync" else Path
    real = getattr(home, step)

    def before(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def after(*given: object, **named: object) -> None:
        real(*given, **named)
        raise KeyboardInterrupt

    for interrupted in (before, after):
        with monkeypatch.context() as patch:
            patch.setattr(home, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                write(Path("p"), "new")
        assert names() == ["p"]
        assert Path("p").read_text() == ("new" if step == "replace" and interrupted is after else "old")


def test_a_pipe_is_written_to() -> None:
    os.mkfifo("pipe")
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(Path("pipe").read_text()))
    reader.start()
    write(Path("pipe"), "new")
    reader.join()
    assert (found, Path("pipe").is_fifo()) == (["new"], True)


def test_a_full_device_is_one_line() -> None:
    with pytest.raises(DocumentError, match=r"^/dev/full: cannot be written: No space left on device$"):
        write(Path("/dev/full"), "new")
    assert Path("/dev/full").is_char_device()


# CSV


def read(tmp_path: Path, text: str) -> list[dict[str, str]]:
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode())
    return [cells for _, cells in read_csv(file)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_like(end: str, tmp_path: Path) -> None:
    text = end.join(["a,b", '1,"x', 'y"', "", "3,4"])
    assert read(tmp_path, text) == [{"a": "1", "b": f"x{end}y"}, {"a": "3", "b": "4"}]
    assert read(tmp_path, text + end) == read(tmp_path, text)


@pytest.mark.parametrize(("text", "message"), [
    ("a,b,a\n", "t.csv:1: column 'a' given twice; allowed: once"),
    ('a,b\n\n1,"x\ny",3\n', "t.csv:3: found 3 cells; allowed: 2, one a column"),
    ('a\n"1"2\n', "t.csv:2: not CSV: ',' expected after '\"'"),
])  # fmt: skip
def test_what_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path}/{message}"


# What is too large is refused before its entries are judged


PLAN: dict[str, Any] = plan_model("lenet-c", levels=1).to_data()
MANY = {f"k{number}": number for number in range(MOST_ENTRIES + 1)}
LONG = "x" * (MOST_CHARACTERS + 1)
ENTRIES = f"found {MOST_ENTRIES + 1:,} entries; allowed: at most {MOST_ENTRIES:,}"
CHARACTERS = f"found {MOST_CHARACTERS + 1:,} characters; allowed: at most {MOST_CHARACTERS:,}"


@pytest.mark.parametrize(("changes", "message"), [
    ({"cost": PLAN["cost"] | {"parameters": MANY}}, f"cost.parameters: {ENTRIES}"),
    ({"pins": [*MANY]}, f"pins: {ENTRIES}"),
    ({"splits": [PLAN["splits"][0] | {"choices": {"fc1": MANY}}]}, f"splits[0].choices.fc1: {ENTRIES}"),
    ({"claim": LONG}, f"claim: {CHARACTERS}"),
    ({"model": PLAN["model"] | {"name": LONG}}, f"model.name: {CHARACTERS}"),
    ({"pins": ["fc1=mp", LONG]}, f"pins[1]: {CHARACTERS}"),
])  # fmt: skip
def test_what_is_too_large(
    changes: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(*_: object) -> None:
        pytest.fail("its entries were judged")

    monkeypatch.setattr("hypar.plan.plan.Plan.model_validate", judged)
    file = tmp_path / "p.json"
    file.write_text(json.dumps(PLAN | changes))
    with pytest.raises(PlanError) as caught:
        read_plan(file)
    assert str(caught.value) == f"{file}: {message}"


def test_a_long_name_is_quoted_short_and_compared_with_nothing() -> None:
    assert len(str(UnknownNameError("solver", LONG, ["chain"]))) < 200
    assert suggestion(LONG, [LONG, "x" * 101]) == suggestion("chian", ["chain" * 50]) == ""
    with pytest.raises(
        DocumentError.__mro__[1], match=rf"space 'x,x.*: found {LONGEST_TEXT + 1:,} characters"
    ):
        parse_space("x," * (LONGEST_TEXT // 2) + "x")
