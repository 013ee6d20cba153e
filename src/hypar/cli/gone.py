"""Commands and options that are no more, each with the line to type in their place."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

import click

from hypar.errors import HyparError, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

Options = dict[str, list[str]]
"""The values of each option that is given; a flag has none."""

OPTIONS = {
    "--memory-limit": "it is --search-memory, as plans will be limited in the memory of devices too",
    "--timeline": "it is --plot",
    "--integral": "shares are whole elements where they run; plans have them as found",
    "--certificate": "hypar check plans again, and compares the whole file",
}
"""What to do in place of an option."""


class Gone(click.UsageError):
    """A command or an option that is no more: one line, and the exit status of wrong usage."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.echo(f"error: {printable(self.message)}", file=file, err=file is None)


def refusal(command: str, words: Sequence[str]) -> Gone:
    """Return the error that refuses a command of ``COMMANDS``, with the whole command line that takes its place."""
    positional: list[str] = []
    options: Options = {}
    last = ""
    apart = [part for word in words for part in (word.split("=", 1) if word[:2] == "--" else [word])]
    for word in apart:
        if word.startswith("-") and word != "-":
            last = "" if word in {"--json", "-h", "--help"} else word
            if word not in {"-h", "--help"}:
                options.setdefault(word, [])
        elif last:
            options[last].append(word)
            last = ""
        else:
            positional.append(word)
    return Gone(COMMANDS[command](positional, options))


def _line(model: Sequence[str], given: dict[str, str], options: Options) -> str:
    """Return a line of ``hypar plan``, and one of ``hypar score`` where a timeline is asked for."""
    files = [part for name in ("--trace", "--plot") if name in options for part in (name, *options.pop(name))]
    words = ["hypar", "plan", *(model or ["MODEL"]), *(part for pair in given.items() for part in pair)]
    for name, values in options.items():
        words += [part for value in values for part in (name, value)] or [name]
    if not files:
        return shlex.join(words)
    return (
        f"{shlex.join([*words, '-o', 'plan.json'])} && {shlex.join(['hypar', 'score', 'plan.json', *files])}"
    )


def _overlap(model: list[str], options: Options) -> str:
    chunks = options.pop("--chunks", ["best"])[-1]
    given = {"--strategy": "dp", "--chunks": "one" if chunks == "none" else chunks}
    if "--table" in options:
        given["--profile"] = options.pop("--table")[-1]
    if "--exchange" in options:
        options.setdefault("--set", []).append(f"exchange={options.pop('--exchange')[-1]}")
    if "--array" not in options and options.get("--hardware"):
        given |= _whole_array(options["--hardware"][-1])
    return f"overlap is plan with chunks: {_line(model, given, options)}"


def _whole_array(hardware: str) -> dict[str, str]:
    """Return all devices of a machine as a level for each of its networks."""
    from hypar.machine.load_heterogeneous import load_hardware  # noqa: PLC0415 (only for this refusal)

    tiers: Sequence[int] = ()
    with suppress(HyparError):
        tiers = [tier.devices for tier in getattr(load_hardware(hardware), "tiers", ()) if tier.devices > 1]
    return {"--array": "x".join(map(str, tiers))} if tiers else {}


def _pipeline(model: list[str], options: Options) -> str:
    given = {} if "--stages" in options or "--starts" in options else {"--stages": "4"}
    given |= {"--levels": "0", "--schedule": options.pop("--schedule", ["layer-block"])[-1]}
    return f"pipeline is plan in stages of single devices: {_line(model, given, options)}"


def _reproduce(paper: list[str], options: Options) -> str:
    folder = [
        word for name in ("-o", "--output") for value in options.get(name, []) for word in ("-o", value)
    ]
    words = shlex.join(["python", "examples/papers/run.py", *(paper or ["PAPER"]), *folder])
    return f"papers are computed by a script, in a clone of the repository: {words}"


COMMANDS = {"overlap": _overlap, "pipeline": _pipeline, "reproduce": _reproduce}
"""The commands that are no more."""
