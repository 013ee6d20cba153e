"""The command line: the group of all commands, and what becomes of errors."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click
from click.exceptions import Exit

from hypar import __version__
from hypar.cli import commands  # noqa: F401 (it lists its commands)
from hypar.cli.rows import COMMANDS
from hypar.errors import HyparError, UnknownNameError, printable
from hypar.files.text import refused

GONE = {
    "overlap": ("overlap is plan with chunks: hypar plan",
                {"--hardware --profile": "hmc", "--strategy": "dp", "--chunks": "best"}),
    "pipeline": ("pipeline is plan in stages of single devices: hypar plan",
                 {"--hardware": "hmc", "--stages --starts": "4", "--levels": "0", "--schedule": "layer-block"}),
    "reproduce": ("papers are computed by a script, in a clone of the repository: python examples/papers/run.py", {}),
}  # fmt: skip
"""The commands that are no more: what does the same, and its options unless they, or others in their place, were typed."""

REWORDED = {
    r"--exchange[ =]": "--set exchange=", r"--table\b": "--profile", r"--devices[ =]": "--array ",
    r"--chunks[ =]none\b": "--chunks one",
}  # fmt: skip
"""Words of those commands, and the same of ``hypar plan``."""

OF_SCORE = r" --(?:trace|plot) (?:'.*?'|\S+)"
"""Files that ``hypar score`` writes of a plan."""

GONE_OPTIONS = {
    "--memory-limit": ("it is --search-memory", " --search-memory"),
    "--timeline": ("it is --plot", " --plot"),
    "--integral": ("shares are whole elements without it", ""),
    "--certificate": ("hypar check plans again, and compares the whole file", None),
}
"""The options that are no more: what does the same, and what to type for each, if that is all."""


def _refusal(line: str, exit_code: int) -> Exit:
    """Print a line on stderr, and return what ends a command with an exit status."""
    with suppress(OSError):
        click.echo(printable(line), err=True, nl=bool(line))
    return Exit(exit_code)


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn a deliberate error, an interrupt or an unprintable help page into one line."""
    try:
        yield
    except HyparError as error:
        lines = "\n".join(f"error: {line}" for line in str(error).splitlines())
        raise _refusal(lines, error.exit_status) from error
    except click.UsageError as error:
        error.message = printable(error.message)  # type: ignore[misc]
        raise
    except KeyboardInterrupt as error:
        raise _refusal("interrupted", 130) from error
    except BrokenPipeError as error:
        raise _refusal("", HyparError.exit_status) from error
    except OSError as error:
        if error.filename is not None:
            raise
        raise _refusal(f"error: {refused(error)}", HyparError.exit_status) from error


def _in_place_of(command: str, words: list[str]) -> str:
    begin, options = GONE[command]
    typed = shlex.join(word for word in words if word not in {"-h", "--help"})
    for pattern, now in REWORDED.items():
        typed = re.sub(pattern, now, typed)
    files, typed = re.findall(OF_SCORE, typed), re.sub(OF_SCORE, "", typed)
    given = {*re.findall(r"--\w+", typed)}
    usual = [f" {flags.split()[0]} {own}" for flags, own in options.items() if not {*flags.split()} & given]
    score = f" -o plan.json && hypar score plan.json{''.join(files)}" if files else ""
    return f"{begin} {typed or ('MODEL' if options else 'PAPER')}{''.join(usual)}{score}"


def _without(words: list[str]) -> str:
    """Return what to type in place of a command line with an option that is no more; empty without one."""
    option = next((own for own in (word.partition("=")[0] for word in words) if own in GONE_OPTIONS), "")
    why, now = GONE_OPTIONS.get(option, ("", None))
    line = "" if now is None else re.sub(rf" {option}\b", now, f": hypar {shlex.join(words)}")
    return option and f"no option {option}: {why}{line}"


class _Commands(click.Group):
    """The commands of the table; those that are no more say what does the same."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the named command; the nearest is suggested if there is none of that name."""
        gone = _in_place_of(args[0], args[1:]) if args[0] in GONE else _without(args)
        if gone and not ctx.resilient_parsing:
            raise _refusal(f"error: {gone}", click.UsageError.exit_code)
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(str(UnknownNameError("command", args[0], sorted(COMMANDS))), ctx)
        return super().resolve_command(ctx, args)

    make_context = _one_line()(click.Group.make_context)
    invoke = _one_line()(click.Group.invoke)


@click.group(
    cls=_Commands,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, prog_name="hypar")
def main() -> None:
    """Decide how each layer of a neural network is cut across each level of an accelerator array.

    Results go to stdout, notes to stderr. Exit status: 0 done; 1 the answer is no: a plan drifted, or does not fit
    the memory of its machine; 2 wrong usage; 3 the input is wrong: a file that cannot be read or written, a value that
    is not allowed, a search that would be too large; 70 an error in hypar itself, to be reported; 130 interrupted.
    """
