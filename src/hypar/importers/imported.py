"""An imported network: the content of its model file, and how much of the network that says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hypar.errors import ModelError
from hypar.files.text import write
from hypar.importers.layers import OPAQUE
from hypar.importers.reading import Reading
from hypar.importers.writing import content, named
from hypar.network.graph import load_model
from hypar.units import DTYPE_BYTES, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.importers.layers import LayerDraft
    from hypar.importers.trace import Trace
    from hypar.network.graph import LayerGraph

LEAST = 0.99
"""Share of operations and of parameters below which a network is refused."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The shares that are recognised.

    Attributes:
        flop: operations of all contractions of the example.
        said_flop: those of layers that are not opaque.
        parameters: elements of all trained tensors.
        said_parameters: those of layers that are not opaque.
        opaque: number of opaque layers by the framework's name of their operations.
    """

    flop: int
    said_flop: int
    parameters: int
    said_parameters: int
    opaque: dict[str, int]

    @property
    def shares(self) -> tuple[float, float]:
        """Recognised share of operations, and of parameters."""
        pairs = (self.said_flop, self.flop), (self.said_parameters, self.parameters)
        flop, parameters = (said / whole if whole else 1.0 for said, whole in pairs)
        return flop, parameters

    def __str__(self) -> str:
        """Return one line."""
        flop, parameters = map(_percent, self.shares)
        text = f"recognised {flop} of {format_count(self.flop)} FLOP and {parameters} of {format_count(self.parameters)} parameters"
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.opaque.items())
        return f"{text}; opaque, cut in the batch alone: {kinds}" if kinds else text


def _percent(share: float) -> str:
    """Format a share, rounded down so that 100 % means all."""
    return f"{int(share * 1000) / 10:g} %"


def coverage_of(reading: Reading) -> Coverage:
    """Return the coverage of a network; a trained tensor counts once, however many layers read it."""
    said = [draft for draft in reading.drafts if draft.op != OPAQUE]
    known = frozenset[str]().union(*(draft.weights for draft in said))
    return Coverage(
        flop=sum(node.flop for node in reading.trace.nodes),
        said_flop=sum(draft.flop for draft in said),
        parameters=sum(reading.sizes.values()),
        said_parameters=sum(reading.sizes[identity] for identity in known),
        opaque=dict(Counter(draft.fields["kind"] for draft in reading.drafts if draft.op == OPAQUE)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A network as a model file says it.

    Attributes:
        name: name of the network.
        content: the content of the file.
        coverage: the recognised shares.
        notes: what a user should know besides, a line each.
    """

    name: str
    content: dict[str, Any]
    coverage: Coverage
    notes: tuple[str, ...]

    def graph(self) -> LayerGraph:
        """Return the network with all its shapes."""
        return load_model(self.content, name=self.name)

    def write(self, file: str | Path) -> None:
        """Write the model file.

        Raises:
            DocumentError: the file cannot be written.
        """
        write(Path(file), self.text())

    def text(self) -> str:
        """Return the text of the model file: an entry a line."""
        said = self.content
        lines = [_flow({key: said[key]})[1:-1] for key in ("source", "batch", "dtype", "dims") if key in said]
        lines += ["blocks:"] if said.get("blocks") else []
        for name, block in said.get("blocks", {}).items():
            entries = (f"      - {_flow(entry)}" for entry in block["layers"])
            lines += [f"  {name}:", "    layers:", *entries]
        return "\n".join([*lines, "layers:", *(f"  - {_flow(entry)}" for entry in said["layers"]), ""])


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.removesuffix("\n")


def imported(trace: Trace, *, batch: int | None, partial: bool) -> Imported:
    """Return the network of a trace.

    Args:
        trace: the network as a framework runs it.
        batch: samples in a mini-batch, if not those of the example.
        partial: whether little recognised is enough.

    Raises:
        ModelError: the network cannot be said, or too little of it is recognised.
    """
    reading = Reading(trace)
    coverage = coverage_of(reading)
    if not partial and min(coverage.shares) < LEAST:
        raise ModelError(trace.name, str(coverage), f"{_percent(LEAST)} of both, or --partial (partial=True)")
    if trace.dtype not in DTYPE_BYTES:
        raise ModelError(trace.name, f"found an input of {trace.dtype}", ", ".join(DTYPE_BYTES))
    drafts, dims = named(reading.drafts, reading.atoms)
    said: dict[str, Any] = {
        "source": trace.source,
        "batch": trace.batch if batch is None else batch,
        **({} if trace.dtype == "float32" else {"dtype": trace.dtype}),
        **({"dims": dims} if dims else {}),
        **content(drafts, trace.classes),
    }
    further = (f"{trace.unused_outputs} further results are left out",) if trace.unused_outputs else ()
    notes = (*further, *_copied(reading.drafts))
    return Imported(name=trace.name, content=said, coverage=coverage, notes=notes)


def _copied(drafts: Sequence[LayerDraft]) -> Iterator[str]:
    """Yield a line on weights that several layers use, and each has in the model file."""
    uses = Counter[str]()
    for draft in drafts:
        if draft.op not in {OPAQUE, "token"} and draft.tied is None and not draft.whole:
            uses.update(draft.weights)
    shared = sorted(identity for identity, count in uses.items() if count > 1)
    if shared:
        others = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
        yield f"{shared[0]}{others}: used by several layers, each of which has its own in the model file"
