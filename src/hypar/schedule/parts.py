"""Into how many microbatches a mini-batch is divided, as asked for or as a schedule has it by itself."""

from __future__ import annotations

from hypar.errors import OptionError, UnknownNameError
from hypar.quoting import shown
from hypar.schedule.orders import SCHEDULES

MOST_TASKS = 2**20
"""Tasks of one timeline: some ten seconds."""

TASKS = 5
"""Tasks of a stage for a microbatch at most: forward, backward, sending of both, update."""


def checked_schedule(name: str) -> str:
    """A schedule that there is.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if not isinstance(name, str) or name not in SCHEDULES:
        raise UnknownNameError("schedule", str(name), SCHEDULES)
    return name


def checked_microbatches(asked: int | None, schedule: str, batch: int, stages: int) -> int:
    """How many microbatches; as many as stages, or the next fewer that divide the mini-batch, if none are asked for.

    Args:
        asked: how many.
        schedule: one of ``SCHEDULES``.
        batch: samples in a mini-batch.
        stages: how many stages they go through.

    Raises:
        OptionError: the mini-batch is not divided so.
    """
    order = SCHEDULES[schedule]
    if not order.flushes:
        if asked not in {None, 1}:
            allowed = f"1, as {schedule!r} takes whole mini-batches"
            raise OptionError("microbatches", f"found {shown(asked)}", allowed)
        return 1
    if asked is None:
        return max(count for count in range(1, stages + 1) if batch % count == 0)
    whole = isinstance(asked, int) and not isinstance(asked, bool)
    if not whole or asked < 1 or batch % asked:
        raise OptionError("microbatches", f"found {shown(asked)}", f"a divisor of the batch {batch:,}")
    most = MOST_TASKS // (TASKS * stages * order.minibatches(stages))
    if asked > most:
        raise OptionError("microbatches", f"found {asked:,}", f"at most {most:,} in {stages} stages")
    return asked
