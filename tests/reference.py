"""The answers of some two thousand plans, in ``reference.csv``: run by hand to see which of them a change changes.

From the root of the repository:

    python tests/reference.py compare [--jobs 2] [WORDS]   plans all rows, or those with these words; lists what differs
    python tests/reference.py write [--jobs 2] [WORDS]     plans them, and stores their answers

A row is a command line, as a user types it after ``hypar plan``, and what ``--json`` answers: the cost, whole and by
split; the bytes by level, seconds, joules and memory of the score; a digest of the stages, of the choices and shares
of each split, and of the chunks; or the exit status and the last line of a refusal. Numbers are compared to nine
digits, shares to six, all else exactly. A new row is a new command line in the file, with no answer until ``write``
fills it in. ``quick`` marks the rows of the quick test. ``reason`` says why a row is meant to answer otherwise today:
such rows are counted by their reasons.

No row depends on the clock. Of command lines dealt from decks of options are left out: plans that take above 2.5 s,
so that no joint search comes near its time limit; joint searches that time cut short; errors that are no refusal; and
all whose answers differed between two runs: one of them in another order, beside other work, with a clock that goes
ten times as fast, and without the newer instructions of the CPU.
"""

import argparse
import csv
import hashlib
import json
import math
import multiprocessing
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from hypar.cli.main import main as hypar

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".csv")
ANSWERS = ("choices", "cost", "bytes", "seconds", "joules", "memory", "refusal")
Row = dict[str, str]


def answer(command: str) -> Row:
    """Plan as ``hypar plan COMMAND --json`` does, in this process, and return the columns of its answer."""
    printed, told = StringIO(), StringIO()
    with chdir(ROOT), redirect_stdout(printed), redirect_stderr(told):
        try:
            status = hypar(["plan", *shlex.split(command), "--json"], "hypar")
        except SystemExit as ended:
            status = ended.code
        except Exception as error:  # noqa: BLE001 (a row like any other)
            status = f"{type(error).__name__}: {error}"
    row = dict.fromkeys(ANSWERS, "") | {"refusal": str(status or "")}
    if printed.getvalue():
        return row | _columns(json.loads(printed.getvalue()))
    return row | {"refusal": " ".join([row["refusal"], *told.getvalue().splitlines()[-1:]])}


def _columns(plan: Mapping[str, Any]) -> Row:
    score = plan.get("score") or {}
    by_split = {name: math.fsum(split["cost"] for split in splits) for name, splits in _splits(plan).items()}
    return {
        "choices": _cell({name: _digest(parts) for name, parts in _choices(plan).items()}),
        "cost": _cell({"all": plan["cost"]["value"], **by_split}),
        "bytes": _cell(score.get("communication", {})),
        "seconds": _text(score.get("time_s")),
        "joules": _text(score.get("energy_j")),
        "memory": _text(score.get("memory_bytes")),
    }


def _splits(plan: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the splits by the name of their level, behind that of their device group if not all are identical."""
    found: dict[str, list[Any]] = {}
    for split in plan["splits"]:
        name = f"H{split['level'] + 1}"
        found.setdefault(name if split["group"] == "all" else f"{split['group']}.{name}", []).append(split)
    return found


def _choices(plan: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if stages := plan.get("stages"):
        each = [[stage.get(key) for key in ("group", "layers", "parts")] for stage in stages["stages"]]
        found["stages"] = [stages.get(key) for key in ("schedule", "parts", "microbatches", "outside")] + each
    decided = ("ways", "shares", "choices", "numbering", "layer_shares")
    for name, splits in _splits(plan).items():
        found[name] = [[split.get(key) for key in decided] for split in splits]
    if chunks := plan.get("chunks"):
        found["chunks"] = chunks["layers"]
    return found


def _digest(value: Any) -> str:
    alike = json.loads(json.dumps(value), parse_float=lambda text: f"{float(text):.6g}", parse_int=str)
    return hashlib.sha256(json.dumps(alike, sort_keys=True).encode()).hexdigest()[:8]


def _cell(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name.replace(' ', '_')}={_text(value)}" for name, value in values.items())


def _text(value: Any) -> str:
    return "" if value is None else f"{value:.12g}" if isinstance(value, (int, float)) else str(value)


def differences(before: str, after: str) -> list[str]:
    """Return what differs between two cells, item by item."""
    items = [dict(item.rpartition("=")[::2] for item in cell.split(" ")) for cell in (before, after)]
    return [
        f"{name} {items[0].get(name)} -> {items[1].get(name)}".lstrip()
        for name in {**items[0], **items[1]}
        if not _same(items[0].get(name), items[1].get(name))
    ]


def _same(before: str | None, after: str | None) -> bool:
    try:
        return before == after or math.isclose(float(before or ""), float(after or ""), rel_tol=1e-9)
    except ValueError:
        return False


def changed(row: Row, found: Row) -> dict[str, list[str]]:
    """Return what differs between the answers of two rows, by its column."""
    refused = [] if row["refusal"] == found["refusal"] else [f"{row['refusal']} -> {found['refusal']}"]
    cells = {name: differences(row[name], found[name]) for name in ANSWERS[:-1]} | {"refusal": refused}
    return {name: items for name, items in cells.items() if items}


def read() -> list[Row]:
    with FILE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def compare(rows: Sequence[Row], answers: Iterable[Row]) -> bool:
    kinds: dict[str, list[str]] = {}
    meant = Counter[str]()
    for row, found in zip(rows, answers, strict=True):
        cells = changed(row, found)
        if cells and row["reason"]:
            meant[row["reason"]] += 1
        elif cells:
            lines = [f"    {name}: {item}" for name, items in cells.items() for item in items]
            kinds.setdefault(", ".join(cells), []).append("\n".join([f"  {row['command']}", *lines]))
    for kind, texts in sorted(kinds.items()):
        _say(f"{kind}: {len(texts)} rows", *texts, "")
    for reason, count in meant.items():
        _say(f"{count} rows: {reason}")
    counts = Counter(name for kind, texts in kinds.items() for name in kind.split(", ") * len(texts))
    parts = ", ".join(f"{name} {counts[name]}" for name in ANSWERS if counts[name])
    _say(
        f"{sum(map(len, kinds.values()))} of {len(rows)} other rows differ" + (f": {parts}" if parts else "")
    )
    return not kinds


def write(rows: Sequence[Row], asked: Sequence[Row], answers: Iterable[Row]) -> bool:
    for row, found in zip(asked, answers, strict=True):
        row.update(found)
    with FILE.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(
            file, ("command", "quick", "reason", *ANSWERS), restval="", lineterminator="\n"
        )
        table.writeheader()
        table.writerows(rows)
    return True


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


def _answers(rows: Sequence[Row], jobs: int) -> Iterator[Row]:
    """Plan in some processes, and tell on a terminal how far it is."""
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for number, found in enumerate(pool.imap(answer, [row["command"] for row in rows], chunksize=8), 1):
            sys.stderr.write(f"\r{number} of {len(rows)}" + "\n" * (number == len(rows)))
            yield found


def main() -> int:
    parser = argparse.ArgumentParser(description="Plan all rows of the file again.")
    parser.add_argument("task", choices=("compare", "write"))
    parser.add_argument("words", nargs="?", default="", help="rows whose command line has these words")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    rows = read()
    asked = [row for row in rows if given.words in row["command"]]
    answers = _answers(asked, given.jobs)
    return not (compare(asked, answers) if given.task == "compare" else write(rows, asked, answers))


if __name__ == "__main__":
    sys.exit(main())
