"""Costs of a pipeline stage for any span of layers: its time, memory, traffic or arithmetic."""

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
"""The quantities that stages can be balanced by, with their units."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class StageCosts:
    """The costs of one mini-batch to a stage, for one span of layers or, as arrays, for all.

    Attributes:
        microbatches: microbatches in a mini-batch.
        in_flight: for each stage, first to last, the largest number of microbatches whose activations it keeps.
        optimizer: one of ``OPTIMIZERS``.
        machine: the machine whose device S - 1 is stage S; None without a machine.
        in_step: whether all stages wait for each other after each mini-batch.
    """

    microbatches: int
    in_flight: tuple[int, ...]
    optimizer: str
    machine: Machine | None
    in_step: bool

    def of(self, balance: str, stage: int, span: Span | Spans) -> Any:
        """Return the cost of one of ``BALANCES``."""
        costs = {"time": self.time, "memory": self.memory, "traffic": self.traffic, "macs": self.macs}
        return costs[balance](stage, span)

    def fitting(self, balance: str, stage: int, spans: Spans) -> Costs:
        """Return the costs of all spans, ``[starts, ends]``; infinite if a span does not fit a device."""
        costs: Costs = self.of(balance, stage, spans)
        capacity = self.machine.memory_bytes if self.machine else None
        return costs if capacity is None else np.where(self.memory(stage, spans) <= capacity, costs, np.inf)

    def memory(self, stage: int, span: Span | Spans) -> Any:
        """Return the largest number of bytes that it holds."""
        return sum(held(span, self.in_flight[stage], self.optimizer).values())

    def traffic(self, _stage: int, span: Span | Spans) -> Any:
        """Return the bytes that it receives from and sends to its neighbours."""
        return self.microbatches * (span.received + span.returned + span.sent + span.fed_back)

    def macs(self, _stage: int, span: Span | Spans) -> Any:
        """Return the multiply-accumulates of its forward phase; each of the three phases has as many."""
        return self.microbatches * span.macs

    def time(self, stage: int, span: Span | Spans) -> Any:
        """Return the seconds from its first work on a mini-batch to its last, if it never waits for another stage.

        Without overlap it computes and sends in turn. With overlap it sends one result while it computes the next; in
        step it waits for its last send, and otherwise the links continue while it works on the next mini-batch.
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
        """Return its times for one microbatch; without a machine, one unit of time each."""
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
        return (self._route(stage, stage + 1), span.sent), (self._route(stage, stage - 1), span.returned)

    def _route(self, stage: int, other: int) -> Route | None:
        if self.machine is None or not 0 <= other < len(self.in_flight):
            return None
        return route(self.machine, stage, other)

    def _resource(self, stage: int, other: int, path: Route) -> str:
        """Return the resource that sending occupies: the stage itself, or a link, which may serve both ways."""
        if self.machine is not None and not self.machine.overlap:
            return stage_name(stage)
        ends = (stage, other) if path.duplex else (min(stage, other), max(stage, other))
        return f"link {ends[0] + 1}-{ends[1] + 1}"


def checked_balance(name: str | None, machine: Machine | None) -> str:
    """Return the balance: the given one, else time with a machine and arithmetic without.

    Raises:
        UnknownNameError: the name is unknown.
        OptionError: time without a machine.
    """
    if name is None:
        return "macs" if machine is None else "time"
    if name not in BALANCES:
        raise UnknownNameError("balance", str(name), BALANCES)
    if name == "time" and machine is None:
        raise OptionError("balance 'time'", "no machine is named", "one, as --hardware hmc")
    return name
