"""The interface of exports, and the files of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError
from hypar.files.text import make_folder, write_text
from hypar.network.training import PHASES
from hypar.registry import load_plugin
from hypar.studies.pieces import problems_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.studies.pieces import Problem


class Entry(NamedTuple):
    """A problem as it is written.

    Attributes:
        name: its name in the file, or the name of its file.
        times: how often a device computes what is written: once for each sample or group that the format cannot express.
        macs: multiply-accumulates of what is written.
        text: the row, or the file.
    """

    name: str
    times: int
    macs: int
    text: str


class Export(NamedTuple):
    """A format of problems for another tool.

    Attributes:
        head: the first line of the one file of all problems; empty for a format of one file for each.
        entry: a function that returns a problem as it is written, or why it cannot be expressed.
    """

    head: str
    entry: Callable[[Problem], Entry | str]


class Exported(NamedTuple):
    """The problems that were written for a plan, each with its form, and those that the format cannot express, with the reason."""

    entries: tuple[tuple[Problem, Entry], ...]
    refused: tuple[tuple[Problem, str], ...]


def row(problem: Problem, times: int, macs: int, *numbers: int) -> Entry:
    """Return a row of SCALE-Sim that counts several times; it takes ``DP`` for rows of a depthwise layer."""
    name = problem.name.replace("DP", "Dp") + (f"-x{times}" if times > 1 else "")
    return Entry(name, times, macs, f"{name}, {', '.join(map(str, numbers))},")


def export_plan(
    plan: Plan | str | Path,
    output: str | Path,
    *,
    format: str = "scale_sim",  # noqa: A002 (the word of the command line)
    layer: str = "*",
    phase: str | None = None,
    model: LayerGraph | str | Path | None = None,
) -> Exported:
    """Write the pieces that the devices of a plan compute for another tool.

    Args:
        plan: the plan, or its file.
        output: the file; for a format of one file for each problem the folder, which is made.
        format: ``scale_sim``, ``scale_sim_gemm``, ``timeloop``, or another plug-in of ``exports``.
        layer: name of the layer, or a pattern, as ``conv*``.
        phase: ``forward``, ``backward`` or ``gradient`` alone; all that the format can express if it is not given.
        model: the network or its file, if the plan's model name does not find it.

    Raises:
        InputError: a file cannot be read or written, or the request is not possible.
    """
    export: Export = load_plugin("exports", format)
    if phase is not None and phase not in PHASES:
        raise OptionError("phase", f"found {phase!r}", ", ".join(PHASES))
    asked = [own for own in problems_of(plan, model=model, layer=layer) if phase in {None, own.phase}]
    found = [(problem, export.entry(problem)) for problem in asked]
    entries = tuple((problem, own) for problem, own in found if not isinstance(own, str))
    refused = tuple((problem, own) for problem, own in found if isinstance(own, str))
    if not entries:
        problem, reason = refused[0]
        raise OptionError("format", f"{problem.name} cannot be expressed: {reason}", "another format")
    target = Path(output)
    if export.head:
        write_text(target, "".join(f"{line}\n" for line in (export.head, *(own.text for _, own in entries))))
    else:
        make_folder(target)
        for _, entry in entries:
            write_text(target / entry.name, entry.text)
    return Exported(entries, refused)
