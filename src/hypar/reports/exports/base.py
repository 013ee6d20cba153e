"""The interface of exports, and the files of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import OptionError
from hypar.files.text import make_folder, write
from hypar.ops.nest import PHASES
from hypar.registry import load_plugin
from hypar.studies.pieces import Problem, problems_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan


class Entry(NamedTuple):
    """A problem as it is written for a tool: a row of one file that begins with ``head``, or without one a file of its own.

    A device computes what is written several ``times``: once for each sample or group that the format cannot express.
    """

    name: str
    text: str
    times: int = 1
    head: str = ""


class Exported(NamedTuple):
    """The problems that are written, each with its form; those that cannot be, each with the reason; the one file, if there is one."""

    entries: tuple[tuple[Problem, Entry], ...]
    refused: tuple[tuple[Problem, str], ...]
    text: str


def export_plan(
    plan: Plan | str | Path,
    output: str | Path | None = None,
    *,
    format: str = "scale_sim",  # noqa: A002 (the word of the command line)
    layer: str = "*",
    phase: str | None = None,
    model: LayerGraph | str | Path | None = None,
) -> Exported:
    """Write the pieces that the devices of a plan compute for another tool.

    Args:
        plan: the plan, or its file.
        output: the file; for a format of one file for each problem the folder, which is made. Without it nothing is written.
        format: ``scale_sim``, ``scale_sim_gemm``, ``timeloop``, or another plug-in of ``exports``.
        layer: name of the layer, or a pattern, as ``conv*``.
        phase: ``forward``, ``backward`` or ``gradient`` alone; all that the format can express if it is not given.
        model: the network or its file, if the plan's model name does not find it.

    Raises:
        InputError: a file cannot be read or written, or the request is not possible.
    """
    entry_of: Callable[[Problem], Entry | str] = load_plugin("exports", format)
    if phase is not None and phase not in PHASES:
        raise OptionError("phase", f"found {phase!r}", ", ".join(PHASES))
    asked = [own for own in problems_of(plan, model=model, layer=layer) if phase in {None, own.phase}]
    found = [(problem, entry_of(problem)) for problem in asked]
    entries = tuple((problem, own) for problem, own in found if isinstance(own, Entry))
    refused = tuple((problem, own) for problem, own in found if isinstance(own, str))
    if not entries:
        problem, reason = refused[0]
        raise OptionError("format", f"{problem.name} cannot be expressed: {reason}", "another format")
    texts = {entry.name: entry.text for _, entry in entries}
    if head := entries[0][1].head:
        texts = {"": "".join(f"{line}\n" for line in (head, *(own.text for _, own in entries)))}
    elif output is not None:
        make_folder(Path(output))
    for name, text in texts.items() if output is not None else ():
        write(Path(output or "", name), text)
    return Exported(entries, refused, texts.get("", ""))
