"""Golden plans: each is a command of ``hypar plan`` with what it prints; three are stored as plan files as well."""

import json
import shlex
from functools import cache
from pathlib import Path

from hypar import Plan
from tests.kit import run

FOLDER = Path(__file__).parent / "golden"
NAMES = tuple(sorted(file.stem for file in FOLDER.glob("*.txt")))


def command(name: str) -> list[str]:
    first = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()[0]
    return shlex.split(first.removeprefix("$ hypar "))


@cache
def golden(name: str) -> Plan:
    return Plan.model_validate(json.loads(run(*command(name), "--json").stdout))
