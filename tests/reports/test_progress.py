"""Progress: at a terminal a line after half a second, removed at the end; elsewhere a line every ten seconds."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest

from hypar import plan_model, verify_plan
from hypar.activity import LISTENER, count, holding
from hypar.reports import terminal
from hypar.studies.grid import compare_strategies

pty = pytest.importorskip("pty")

CODE = """
import sys, time
from hypar.activity import count, tell
from hypar.reports.terminal import progress_bar
with progress_bar("starting"):
    for done in range(int(sys.argv[1])):
        tell(f"part {done}")
        count(done, 20)
        time.sleep(0.05)
print("the answer")
"""


def at_terminal(*command: str) -> tuple[str, str]:
    """What a program writes on stdout, a pipe, and on stderr, a terminal of 80 columns."""
    master, slave = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    shown = b""
    with tempfile.TemporaryFile() as written:
        started = subprocess.Popen(command, stdout=written, stderr=slave, env=environment)
        os.close(slave)
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        os.close(master)
        assert started.wait(timeout=60) == 0, shown
        written.seek(0)
        return written.read().decode(), shown.decode()


def test_long_work_says_what_it_does_and_how_far_it_is() -> None:
    out, shown = at_terminal(sys.executable, "-c", CODE, "20")
    assert out == "the answer\n"
    seen = [int(number) for number in re.findall(r"part (\d+)", shown)]
    assert seen
    assert min(seen) >= 5
    assert re.search(r"part (\d+): \1 of 20, \d s", shown)
    assert shown.endswith("\r\x1b[2K")


class Waits(threading.Event):
    """The end of work of 25 seconds, which does something more while each line is waited for."""

    def __init__(self, work: Iterable[Callable[[], None]]) -> None:
        super().__init__()
        self.work, self.now_s = iter(work), 0.0

    def wait(self, timeout: float | None = None) -> bool:
        for more in self.work:
            self.now_s += timeout or 0.0
            more()
            return False
        return True


@pytest.mark.parametrize("term", [None, "dumb"])
def test_a_pipe_gets_a_line_every_ten_seconds(
    term: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if term is not None:
        monkeypatch.setenv("TERM", term)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    state = {"what": "scoring 9,216 points", "far": ""}
    ended = Waits([lambda: None, lambda: state.update(far="1,200 of 9,216, ")])
    monkeypatch.setattr("hypar.reports.terminal.time.monotonic", lambda: ended.now_s)
    monkeypatch.setattr(terminal, "EVERY_S", 10.0)
    terminal._watch(state, ended)
    lines = "scoring 9,216 points: 10 s\nscoring 9,216 points: 1,200 of 9,216, 20 s\n"
    assert capsys.readouterr() == ("", lines)


class Tty:
    def isatty(self) -> bool:
        return True

    def write(self, _text: str) -> int:
        return 0

    def flush(self) -> None:
        pass


def test_the_line_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Tty())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "PATIENCE_S", 0)
    before = threading.active_count()
    with suppress(KeyboardInterrupt), terminal.progress_bar("working"):
        time.sleep(0.2)
        count(1, 2)
        assert threading.active_count() > before
        raise KeyboardInterrupt
    for _ in range(100):
        time.sleep(0.02 * (threading.active_count() > before))
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda: plan_model("sfc", levels=2, hardware="hmc", refine=True), ["planning sfc by hypar", "refining fc1", "refining fc2"]),
        (lambda: plan_model("lenet-c", levels=2, hardware="hmc", stages="best"), ["planning lenet-c by hypar", "trying 2 stages of 2, 8 microbatches"]),
        (lambda: plan_model("sfc", levels=2, strategy="optimal"), ["planning sfc by optimal, at most 60 s a search"]),
        (lambda: compare_strategies("sfc", strategies="owt"), ["planning sfc by dp", "planning sfc by owt"]),
        (
            lambda: verify_plan(plan_model("sfc", levels=2), batch=4, shrink=True),
            ["lowering sfc by hypar over 4 devices", "running sfc on 4 simulated devices, and on one", "comparing the counts of sfc"],
        ),
    ],
)  # fmt: skip
def test_work_tells_its_listener_what_it_begins(work: Callable[[], object], said: list[str]) -> None:
    told: list[str] = []
    with holding(LISTENER, told.append):
        work()
    assert [what for what in dict.fromkeys(told) if what in said] == said
