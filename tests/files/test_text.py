"""Where a file's content goes: links, modes, devices and pipes, and what a failure leaves."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from hypar.errors import DocumentError
from hypar.files.text import require_writable, write

pytestmark = pytest.mark.usefixtures("folder")


def names() -> list[str]:
    return sorted(str(file) for file in Path().rglob("*"))


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


def test_a_dangling_link_gets_its_target() -> None:
    Path("link").symlink_to("target")
    write(Path("link"), "new")
    assert (Path("link").is_symlink(), Path("target").read_text()) == (True, "new")


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
