"""The overlap study: from a network to a step whose gradients are exchanged in chunks."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from hypar.network.build import load_model
from hypar.network.gradients import Gradients, gradients_of
from hypar.network.graph import LayerGraph
from hypar.plan.conventions import checked
from hypar.schedule.chunks.exchanges import Sizes, exchange_named, typical
from hypar.schedule.data_parallel import OverlappedStep, lower_chunks
from hypar.sharding.conventions import MOVED
from hypar.studies.overlap.result import Chunk, Overlap
from hypar.studies.overlap.sizes import chosen_sizes, search_settings, step_s
from hypar.studies.overlap.source import measured, on_machine
from hypar.timeline import Timeline, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hypar.machine.machine import Machine


def overlap_model(
    model: LayerGraph | str | Path,
    *,
    hardware: Machine | str | Path | None = None,
    table: str | Path | None = None,
    exchange: str = "serial",
    chunks: str | int = "best",
    array: Sequence[int] | None = None,
    batch: int | None = None,
    changes: Mapping[str, Any] | None = None,
    search_step: int | None = None,
    search_range: int | None = None,
    search_interval: int | None = None,
    convention: str | None = None,
) -> Overlap:
    """Exchange the gradients of a data-parallel step in chunks while its backward phase computes.

    Args:
        model: a network, the path of a model file, or a bare name as ``vgg16``.
        hardware: a machine, the path of a hardware file, or a bare name; its own times are used.
        table: a file of measured times instead, YAML or CSV.
        exchange: ``serial``, over one link, or ``independent``, as CGDP counts it.
        chunks: ``best`` for the fastest chunks, ``layers`` for one chunk per layer, ``none`` for one
            exchange after the backward phase, ``search`` for the size that CGDP's Algorithm 1 finds, or a size.
        array: ways of each level, outermost first; all devices of the machine, a level for each of its networks,
            unless given.
        batch: samples in a mini-batch, if not the model's own number.
        changes: changes of the machine, if a file or a name is given.
        search_step: the search tries every size up to this one and then its multiples; 10 unless given.
        search_range: the number of steps past the best size after which the search ends; 5 unless given.
        search_interval: the number of training iterations with each size; 10 unless given.
        convention: any one by which bytes are counted: gradients of data parallelism are the same by all.

    Raises:
        InputError: a file is wrong, the request cannot be met, or the array does not fit the machine.

    Examples:
        >>> found = overlap_model("alexnet", hardware="p100-4x4", array=[4])
        >>> [chunk.layers for chunk in found.chunks]
        [('fc3', 'fc2', 'fc1'), ('conv5', 'conv4', 'conv3', 'conv2'), ('conv1',)]
    """
    checked(MOVED if convention is None else convention)
    network = model if isinstance(model, LayerGraph) else load_model(model)
    network = network if batch is None else network.with_batch(batch)
    manner, gradients = exchange_named(exchange), gradients_of(network)
    given = {"hardware": hardware, "array": array, "batch": batch, "changes": changes or None}
    asked = {"step": search_step, "reach": search_range, "interval": search_interval}
    source = measured(table, network, gradients, given) if table is not None else on_machine(network, given)
    times = source.times
    sizes, search = chosen_sizes(times, manner, chunks, search_settings(chunks, asked))
    counted = typical(times, manner)[0] if chunks == "none" else times
    spans = manner.spans(counted, sizes)
    step = lower_chunks(counted, sizes, manner)
    timeline = run(step.tasks)
    return Overlap(
        graph=network,
        machine=source.machine,
        array=source.array,
        table=source.table,
        times=times,
        exchange=exchange,
        by=str(chunks),
        chunks=_described(sizes, step, timeline, gradients),
        critical=spans.index(max(spans)),
        typical_s=step_s(*typical(times, manner), manner),
        timeline=timeline,
        search=search,
    )


def _described(
    sizes: Sizes, step: OverlappedStep, timeline: Timeline, gradients: Sequence[Gradients]
) -> tuple[Chunk, ...]:
    """Describe the content of each chunk and the times of its exchange."""
    last_first, found = iter(reversed(gradients)), []
    for size, tasks in zip(sizes, step.chunks, strict=True):
        held = list(islice(last_first, size))
        found.append(
            Chunk(
                layers=tuple(each.layer for each in held),
                parameters=tuple(name for each in held for name in each.parameters),
                num_bytes=sum(each.num_bytes for each in held),
                ready_s=timeline.ends[tasks.ready],
                start_s=timeline.starts[tasks.sent[0]],
                end_s=timeline.ends[tasks.sent[-1]],
            )
        )
    return tuple(found)
