"""The record of a microbatch: the ops of a part of a stage with the buffers that each reads and writes.

An op is of a node of the plan graph, a layer with the ops fused behind it, or of an edge, a tensor between two nodes. Every
edge has a transfer forward and one backward, every node a sum in each phase, whether something moves there or not: what
moves is said by the convention, the choices and the machine. So the record of a graph follows from the graph alone, and
ops wait for each other by their buffers alone.

The order of issue depends on no duration. Forward, a node gets its tensors, computes, then adds up the partial sums that
its cuts left; backward is the same in reverse, and it adds up and sends the error of its input, first to the node that computes
next, before it computes the gradient of its weight, as the rest of the backward phase waits for the error.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from hypar.network.nodes import PlanGraph, kept_with_graph
from hypar.network.training import GATHERED

Buckets = tuple[tuple[int, ...], ...]
"""The indices of the nodes of each bucket of gradients, in the order of the backward phase."""


class Op(NamedTuple):
    """An op of all devices of a part of a stage.

    Attributes:
        kind: ``compute``; ``sum`` of the terms that the devices of a node have, or what gathers its weight; ``move`` of a tensor
            between two nodes; ``update``, behind which a weight may be gathered.
        phase: ``forward``, ``backward``, ``gradient``, ``weight`` or ``update``.
        node: the node; of a move the one that receives.
        reads: the buffers that it waits for.
        writes: the buffers that are there when it is done.
        edge: the edge of a move; -1 for the others.
        bucket: the nodes whose gradients it adds up together; empty for its own alone.
        once: whether it runs once in a mini-batch.
    """

    kind: str
    phase: str
    node: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    edge: int = -1
    bucket: tuple[int, ...] = ()
    once: bool = False


INPUT, ERROR = 0, 1
"""The buffers that come from other stages, or from outside."""

FIRST, EACH = 2, 7
"""The first buffer of the first node, and the number of buffers of each."""

TERMS, OUTPUT, ERROR_TERMS, SENT, GRADIENT_TERMS, GRADIENT, WEIGHT = range(FIRST, FIRST + EACH)
"""The buffers of the first node; those of each other node follow, then those of both ways of each edge."""


@dataclass(frozen=True, eq=False)
class Record:
    """The ops of a part of a stage for a microbatch.

    Attributes:
        forward: the ops of the forward phase, in order.
        backward: those of the backward phase, each gradient summed and each weight updated at once.
        made: the buffers of its results that no node inside reads.
        sent: the buffers of errors that no node inside reads.
        buffers: the number of buffers.
    """

    forward: tuple[Op, ...]
    backward: tuple[Op, ...]
    made: tuple[int, ...]
    sent: tuple[int, ...]
    buffers: int


Again = tuple[tuple[int, ...], bool]
"""Nodes that the backward phase computes again before it goes back through the last of them, and whether with what comes to them."""

Gather = tuple[int, tuple[int, ...]]
"""A tensor of which devices keep a shard, by its edge, and the nodes for whose backward phase they gather it again."""


@kept_with_graph
def record_of(
    graph: PlanGraph,
    rests: tuple[tuple[int, int], ...] = (),
    again: tuple[Again, ...] = (),
    gathers: tuple[Gather, ...] = (),
) -> Record:
    """Return the record of the nodes of a graph, which are in topological order; some have weights in shares by a stage of ZeRO.

    What is computed again waits for the error that the last of these nodes reads. A weight that is gathered then stays. A tensor of which
    devices keep a shard is gathered while the last of its readers computes the error of its input.
    A weight in shares is gathered while the node with such a weight that runs before computes, the first as soon as it can be.
    """
    nodes, stages = range(len(graph.layers)), dict(rests)
    into, out_of = ([list[int]() for _ in nodes] for _ in range(2))
    for edge, tensor in enumerate(graph.tensors):
        into[tensor.consumer].append(edge)
        out_of[tensor.producer].append(edge)
    forward = [_forward(graph, node, into[node]) for node in nodes]
    backward = [
        _backward(graph, node, into[node], out_of[node], once=stages.get(node, 0) < 2)
        for node in reversed(nodes)
    ]
    for some, moves in again:
        at = next(number for number, ops in enumerate(backward) if ops[0].node == some[-1])
        ops, *behind = ([op for op in forward[node] if moves or op.kind == "compute"] for node in some)
        start = _compute(ops)
        ops[start] = ops[start]._replace(reads=(*ops[start].reads, *backward[at][0].reads))
        backward[at:at] = [ops, *behind]
    for kept in gathers:
        _whole_again(graph, kept, backward)
    first = _way(graph, len(graph.tensors))
    whole = {node: first + node for node, stage in rests if stage == GATHERED}
    return Record(
        forward=_gathering(forward, whole),
        backward=_gathering(backward, whole, {node for some, _ in again for node in some}),
        made=tuple([EACH * node + OUTPUT for node in nodes if not out_of[node]]),
        sent=tuple([EACH * node + SENT for node in nodes if not into[node]]),
        buffers=first + len(nodes),
    )


def _compute(ops: Sequence[Op]) -> int:
    return next(at for at, op in enumerate(ops) if op.kind == "compute")


def _reading(ops: Sequence[Op], buffer: int, phase: str = "") -> list[Op]:
    """Return some ops, of which the computations, or those of a phase, wait for one more buffer."""
    waiting = {op for op in ops if op.kind == "compute" and phase in {"", op.phase}}
    return [op._replace(reads=(*op.reads, buffer)) if op in waiting else op for op in ops]


def _whole_again(graph: PlanGraph, own: Gather, backward: list[list[Op]]) -> None:
    """Gather a tensor again before the first backward phase of a reader, whose gradient, or error if it has no weight, waits for it."""
    (edge, readers), tensor = own, graph.tensors[own[0]]
    using = [ops for ops in backward if ops[-1].node in readers]
    errors, whole = using[0][_compute(using[0])].reads, _way(graph, edge)
    for ops in using:
        alone = not graph.layers[ops[-1].node].nest.weight
        ops[:] = _reading(ops, whole, "" if alone else "gradient")
    reads = EACH * tensor.producer + OUTPUT, *errors
    using[0].insert(0, Op("move", "forward", tensor.consumer, reads, (whole,), edge))


def _gathering(
    each: Sequence[list[Op]], whole: Mapping[int, int], kept: Container[int] = ()
) -> tuple[Op, ...]:
    """Return the ops of each node in turn with those that gather weights, by the buffers of these.

    Those of nodes that are computed again are ``kept`` until these go backward.
    """
    found, ahead, reads = list[Op](), 0, each[0][_compute(each[0])].reads
    for own in each:
        at = len(found) + _compute(own)
        found += own
        if (node := found[at].node) in whole:
            if found[at].phase == "forward" or node not in kept:
                found.insert(ahead, Op("sum", "weight", node, reads, (whole[node],)))
                at += 1
            ahead, reads = at, found[at].reads
            found[at:] = _reading(found[at:], whole[node])
    return tuple(found)


def _way(graph: PlanGraph, edge: int) -> int:
    """Return the buffer of F behind an edge; that of E follows."""
    return FIRST + EACH * len(graph.layers) + 2 * edge


def _forward(graph: PlanGraph, node: int, into: Sequence[int]) -> list[Op]:
    at, arrived = EACH * node, tuple([_way(graph, edge) for edge in into])
    makers = [EACH * graph.tensors[edge].producer for edge in into]
    moves = zip(into, makers, arrived, strict=True)
    return [
        *[Op("move", "forward", node, (maker + OUTPUT,), (way,), edge) for edge, maker, way in moves],
        Op("compute", "forward", node, arrived or (INPUT,), (at + TERMS,)),
        Op("sum", "forward", node, (at + TERMS,), (at + OUTPUT,)),
    ]


def _backward(
    graph: PlanGraph, node: int, into: Sequence[int], out_of: Sequence[int], *, once: bool
) -> list[Op]:
    at, arrived = EACH * node, tuple([_way(graph, edge) + 1 for edge in out_of])
    reads = (*(arrived or (ERROR,)), at + OUTPUT)
    sent, makers = (at + SENT,), sorted((-graph.tensors[edge].producer, edge) for edge in into)
    moves = [Op("move", "backward", -maker, sent, (_way(graph, edge) + 1,), edge) for maker, edge in makers]
    return [
        Op("compute", "backward", node, reads, (at + ERROR_TERMS,)),
        Op("sum", "backward", node, (at + ERROR_TERMS,), sent),
        *moves,
        Op("compute", "gradient", node, reads, (at + GRADIENT_TERMS,)),
        Op("sum", "gradient", node, (at + GRADIENT_TERMS,), (at + GRADIENT,), once=once),
        Op("update", "update", node, (at + GRADIENT,), (at + WEIGHT,), once=True),
    ]


def _bucketed(ops: Sequence[Op], buckets: Buckets) -> Sequence[Op]:
    """Return the ops of a backward phase with the gradients of each bucket summed together, behind the last of its nodes.

    Nodes outside all buckets sum nothing.
    """
    found, updates = list[Op](), {op.node: op for op in ops if op.kind == "update"}
    inside, last = {node for bucket in buckets for node in bucket}, {bucket[-1]: bucket for bucket in buckets}
    for op in ops:
        if op.phase not in {"gradient", "update"} or op.kind == "compute":
            found.append(op)
        elif op.node not in inside and op.kind == "update":
            found.append(op._replace(reads=(EACH * op.node + GRADIENT_TERMS,)))
        elif op.node in last and op.kind == "sum":
            bucket = last[op.node]
            terms, sums = (tuple([EACH * node + of for node in bucket]) for of in (GRADIENT_TERMS, GRADIENT))
            found.append(op._replace(reads=terms, writes=sums, bucket=bucket))
            found += [updates[node] for node in bucket]
    return found


@lru_cache(maxsize=256)
def backward_of(
    record: Record, buckets: Buckets | None, *, eager: bool, deferred: bool, final: bool
) -> list[Op]:
    """Return the ops of the backward phase of a record in the order of issue.

    Args:
        record: the record.
        buckets: the nodes that sum their gradients together; without buckets each node sums its own.
        eager: whether an error is sent as soon as it is there, and not just before it is read: some devices compute meanwhile.
        deferred: whether gradients are summed and weights updated behind the whole phase.
        final: whether they are at all, in this microbatch.
    """
    ops = record.backward if buckets is None else _bucketed(record.backward, buckets)
    order = [op for op in ops if final or not op.once]
    if deferred:
        order.sort(key=lambda op: op.once)
    if eager:
        return order
    first = {buffer: at for at, op in reversed([*enumerate(order)]) for buffer in op.reads}
    places = [
        (first[op.writes[0]], 0, op.edge) if (op.kind, op.phase) == ("move", "backward") else (at, 1, -1)
        for at, op in enumerate(order)
    ]
    return [op for _, op in sorted(zip(places, order, strict=True))]
