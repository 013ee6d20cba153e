"""The pipeline's Table II and Figures 5 and 6: the transfers between stages and between threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.files.figures import Figure
from hypar.network.ops.base import elements_of
from hypar.studies.page import Section
from hypar.studies.sections.pipeline.blocks import divided
from hypar.studies.sections.pipeline.counts import cut_beside
from hypar.studies.sections.pipeline.published import (
    BATCHES,
    EACH,
    MOVED,
    RECEIVED,
    STARTS_OF,
    THREADS,
    UNIFIED,
)

if TYPE_CHECKING:
    from hypar.studies.sections.pipeline.blocks import Blocks

TRIED = (1, 2, 4, 8, 16, 32, 64)
"""Batches of Figure 6; the text available to us does not give the paper's."""

MOST = 100.0
"""Section 3.1: MB that both directions together do not exceed at the paper's batch."""


def forward_bytes(found: Blocks) -> list[int]:
    """Return the bytes that each stage receives for an image: the image itself, then the previous stage's output."""
    image = sum(elements_of(layer.shape) for layer in found.graph.layers if layer.op_name == "input")
    return [found.graph.element_bytes * image, *(stage.sent_bytes for stage in found.stages[:-1])]


def three_digits(sizes: list[int], batch: int) -> float:
    """Sum MB as Table II does: each to three digits, times the batch, cut to two digits."""
    return sum(batch * round(size, -3) // 10_000 for size in sizes) / 100


def between(found: Blocks) -> Section:
    """Compare the bytes that stages receive and send."""
    ahead = forward_bytes(found)
    back = [stage.returned_bytes for stage in found.stages]
    rows = []
    for batch in BATCHES:
        rows += [
            (
                f"forward, into stage {number}, batch {batch}",
                *cut_beside(published, batch * own / 1e6),
                f"{three_digits([own], batch):.2f}" if batch > 1 else "",
            )
            for number, (published, own) in enumerate(zip(RECEIVED[batch], ahead, strict=True), 1)
        ]
    every = {
        "forward, received": ahead,
        "forward, sent": ahead[1:],
        "backward, received": back,
        "backward, sent": back,
    }
    rows += [
        (
            f"{what} in all, batch {batch}",
            *cut_beside(MOVED[what][place], batch * sum(own) / 1e6),
            f"{three_digits(own, batch):.2f}" if batch > 1 else "",
        )
        for what, own in every.items()
        for place, batch in enumerate(BATCHES)
    ]
    return Section(
        title="Table II: bytes between stages",
        text=(
            "MB. Stage 1 receives the image; an error goes back over each of the three places where a tensor goes forward."
            f" The printed numbers at batch {BATCHES[-1]} are the batch times numbers of three digits, cut to two, the last"
            " column; the sums are of these. Backward, 0.36 MB are printed as sent of one image where 0.53 are received: two"
            f" of the three errors; at batch {BATCHES[-1]} both are 17.04."
        ),
        heads=("", "published", "ours", "ratio", "of three digits"),
        rows=tuple(rows),
    )


def figure_5(found: Blocks) -> Section:
    """Compare the traffic that unifies the weights of threads as their number grows."""
    weights = sum(stage.memory["weights"] for stage in found.stages) / 1e6
    rows = []
    series: dict[str, list[float]] = {"one way": [], "added up by hypar": []}
    for count, starts in STARTS_OF.items():
        gradients = sum(stage.memory["gradients"] for stage in divided(found.graph, starts).stages)
        added = 2 * (count - 1) * gradients / 1e6
        printed = f"{UNIFIED:.1f}" if count == len(found.stages) else ""
        cells = (count * EACH, count * weights, 2 * count * weights, added)
        rows.append((str(count), printed, *(f"{cell:.1f}" for cell in cells)))
        series["one way"].append(count * weights)
        series["added up by hypar"].append(added)
    return Section(
        title="Figure 5: threads unify their weights",
        text=(
            f"MB of a step, {EACH} n in the paper's words for n threads. It calls {UNIFIED:.0f} MB at degree 4 the whole of"
            " sending and receiving, but each thread pushes its weights to the server and pulls them back: by its own Table I"
            f" {THREADS['sent, all'][0]} MB each way, twice as much together. hypar counts no server: its devices add their gradients up among"
            " themselves, each element received 2 (n - 1) times, nothing at degree 1, and no statistics of batch"
            " normalisation."
        ),
        heads=("threads", "published", f"published, {EACH} n", "one way", "both ways", "added up by hypar"),
        rows=tuple(rows),
        figure=Figure(
            title="MB of threads a step", x=[str(count) for count in STARTS_OF], x_label="threads", y_label="MB",
            series=series, kind="lines",
        ),
    )  # fmt: skip


def figure_6(found: Blocks) -> Section:
    """Compare the traffic of stages as the batch grows."""
    ahead, back = sum(forward_bytes(found)) / 1e6, sum(stage.returned_bytes for stage in found.stages) / 1e6
    most = int(MOST / (ahead + back))
    rows = []
    for batch in TRIED:
        place = BATCHES.index(batch) if batch in BATCHES else None
        known = (
            ("", "")
            if place is None
            else [f"{MOVED[what][place]:.2f}" for what in ("forward, received", "backward, received")]
        )
        rows.append((str(batch), known[0], f"{batch * ahead:.2f}", known[1], f"{batch * back:.2f}",
                     f"{batch * (ahead + back):.2f}"))  # fmt: skip
    return Section(
        title="Figure 6: bytes against the batch",
        text=(
            "MB that stages receive for a mini-batch, in proportion to it. The paper says that both directions together do"
            f" not exceed {MOST:.0f} MB at its batch of {BATCHES[-1]}; they do not up to a batch of {most}. Threads unify the"
            " same weights at any batch."
        ),
        heads=("batch", "forward published", "forward", "backward published", "backward", "both"),
        rows=tuple(rows),
        figure=Figure(
            title="MB between stages", x=[str(batch) for batch in TRIED], x_label="batch", y_label="MB",
            series={"forward": [batch * ahead for batch in TRIED], "backward": [batch * back for batch in TRIED]},
            kind="lines",
        ),
    )  # fmt: skip
