"""The interface of exports, and the files of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hypar.errors import OptionError
from hypar.files.text import make_folder, write_text
from hypar.network.training import PHASES
from hypar.registry import load_plugin
from hypar.studies.problems import problems_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.studies.problems import Problem


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


class Export(Protocol):
    """A format of problems for another tool.

    Attributes:
        head: the first line of the one file of all problems; empty for a format of one file for each.
    """

    head: str

    def refused(self, problem: Problem) -> str:
        """Return why a problem cannot be expressed; empty if it can be."""

    def entry(self, problem: Problem) -> Entry:
        """Return a problem as it is written."""


class Exported(NamedTuple):
    """What was written for a plan.

    Attributes:
        entries: the problems that were written, each with its form in the file.
        refused: the problems that the format cannot express, each with the reason.
    """

    entries: tuple[tuple[Problem, Entry], ...]
    refused: tuple[tuple[Problem, str], ...]


def load_export(name: str) -> Export:
    """Load the export of a name.

    Raises:
        UnknownNameError: there is no such format.
    """
    export: Export = load_plugin("exports", name)
    return export


def row_name(problem: Problem, times: int) -> str:
    """Return the name of a row for SCALE-Sim, which takes a name with ``DP`` for many rows of a depthwise layer.

    Args:
        problem: the problem.
        times: how often the row counts, which its name ends in.
    """
    return problem.name.replace("DP", "Dp") + (f"-x{times}" if times > 1 else "")


def exported(export: Export, problems: Sequence[Problem], phase: str | None = None) -> Exported:
    """Return problems as they are written.

    Args:
        export: the format.
        problems: the problems.
        phase: the only phase to write; None for all that the format can express.

    Raises:
        OptionError: there is no such phase, or the format can express none of the problems.
    """
    if phase is not None and phase not in PHASES:
        raise OptionError("phase", f"found {phase!r}", ", ".join(PHASES))
    asked = [problem for problem in problems if phase in {None, problem.phase}]
    reasons = [(problem, export.refused(problem)) for problem in asked]
    written = tuple((problem, export.entry(problem)) for problem, reason in reasons if not reason)
    refused = tuple((problem, reason) for problem, reason in reasons if reason)
    if not written:
        problem, reason = refused[0]
        raise OptionError("format", f"{problem.name} cannot be expressed: {reason}", "another format")
    return Exported(written, refused)


def files_of(export: Export, found: Exported) -> Mapping[str, str]:
    """Return the text of each file by its name; the only file of a format with a head has an empty name."""
    if export.head:
        rows = "".join(f"{entry.text}\n" for _, entry in found.entries)
        return {"": f"{export.head}\n{rows}"}
    return {entry.name: entry.text for _, entry in found.entries}


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
    export = load_export(format)
    found = exported(export, problems_of(plan, model=model, layer=layer), phase)
    target = Path(output)
    if not export.head:
        make_folder(target)
    for name, text in files_of(export, found).items():
        write_text(target / name if name else target, text)
    return found
