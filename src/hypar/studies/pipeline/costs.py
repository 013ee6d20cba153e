"""What a stage of a pipeline costs, whatever span of layers it gets: its time, memory, traffic or arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.errors import OptionError, UnknownNameError
from hypar.machine.routes import Route, route
from hypar.plan.splits import stage_name
from hypar.schedule.pipeline import Pace, Send
from hypar.studies.pipeline.spans import held

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.solve.edge import Costs
    from hypar.studies.pipeline.spans import Span, Spans

BALANCES = {"time": "seconds", "memory": "bytes", "traffic": "bytes", "macs": "MACs"}
"""What stages may be balanced by, with its unit."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class StageCosts:
    """What one mini-batch costs a stage, of one span of layers or, as arrays, of all.

    Attributes:
        microbatches: of a mini-batch.
        in_flight: for each stage, first to last, microbatches whose activations it keeps at most.
        optimizer: one of ``OPTIMIZERS``.
        machine: stage S is its device S - 1; None for none.
        in_step: whether all stages wait for each other after each mini-batch.
    """

    microbatches: int
    in_flight: tuple[int, ...]
    optimizer: str
    machine: Machine | None
    in_step: bool

    def of(self, balance: str, stage: int, span: Span | Spans) -> Any:
        """One of ``BALANCES``."""
        costs = {"time": self.time, "memory": self.memory, "traffic": self.traffic, "macs": self.macs}
        return costs[balance](stage, span)

    def fitting(self, balance: str, stage: int, spans: Spans) -> Costs:
        """The same of all spans, infinite where one does not fit a device: ``[starts, ends]``."""
        costs: Costs = self.of(balance, stage, spans)
        capacity = self.machine.memory_bytes if self.machine else None
        return costs if capacity is None else np.where(self.memory(stage, spans) <= capacity, costs, np.inf)

    def memory(self, stage: int, span: Span | Spans) -> Any:
        """Bytes that it holds at most."""
        return sum(held(span, self.in_flight[stage], self.optimizer).values())

    def traffic(self, _stage: int, span: Span | Spans) -> Any:
        """Bytes that it receives from and sends to its neighbours."""
        return self.microbatches * (span.received + span.returned + span.sent + span.fed_back)

    def macs(self, _stage: int, span: Span | Spans) -> Any:
        """Multiply-accumulates of its forward phase; each of the three phases has as many."""
        return self.microbatches * span.macs

    def time(self, stage: int, span: Span | Spans) -> Any:
        """Seconds from its first work on a mini-batch to its last, were it never to wait for another stage.

        Without overlap it computes and sends, one thing after another. With overlap it sends beside what it computes
        next; in step what it sends last is waited for, and otherwise the links go on while it works on what follows.
        """
        ahead, back = (
            path.seconds(num_bytes) if path else 0.0 for path, num_bytes in self._sends(stage, span)
        )
        forward, backward = span.forward_s, span.backward_s
        if self.machine is not None and not self.machine.overlap:
            return self.microbatches * (forward + ahead + backward + back) + span.update_s
        if self.in_step:
            return forward + np.maximum(ahead, backward + np.maximum(span.update_s, back))
        computing = self.microbatches * (forward + backward) + span.update_s
        return np.maximum(computing, self.microbatches * np.maximum(ahead, back))

    def pace(self, stage: int, span: Span) -> Pace:
        """How long it takes for one microbatch; a unit of time each without a machine."""
        if self.machine is None:
            return Pace()
        ahead, back = (
            Send(path.seconds(num_bytes), self._resource(stage, other, path)) if path and num_bytes else None
            for other, (path, num_bytes) in zip((stage + 1, stage - 1), self._sends(stage, span), strict=True)
        )
        return Pace(span.forward_s, span.backward_s, span.update_s, ahead, back)

    def _sends(
        self, stage: int, span: Span | Spans
    ) -> tuple[tuple[Route | None, Any], tuple[Route | None, Any]]:
        """The route and the bytes of what it sends for each microbatch, ahead and back."""
        return (self._route(stage, stage + 1), span.sent), (self._route(stage, stage - 1), span.returned)

    def _route(self, stage: int, other: int) -> Route | None:
        """The route from one stage to another; None where there is none."""
        if self.machine is None or not 0 <= other < len(self.in_flight):
            return None
        return route(self.machine, stage, other)

    def _resource(self, stage: int, other: int, path: Route) -> str:
        """What sending keeps busy: the stage itself, or a link, which may be one for both ways."""
        if self.machine is not None and not self.machine.overlap:
            return stage_name(stage)
        ends = (stage, other) if path.duplex else (min(stage, other), max(stage, other))
        return f"link {ends[0] + 1}-{ends[1] + 1}"


def checked_balance(name: str | None, machine: Machine | None) -> str:
    """What to balance by: the name given, else time where there is a machine, and arithmetic where there is none.

    Raises:
        UnknownNameError: there is none of that name.
        OptionError: time without a machine.
    """
    if name is None:
        return "macs" if machine is None else "time"
    if name not in BALANCES:
        raise UnknownNameError("balance", str(name), BALANCES)
    if name == "time" and machine is None:
        raise OptionError("balance 'time'", "no machine is named", "one, as --hardware hmc")
    return name
