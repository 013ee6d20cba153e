"""The sums that devices add up on the way through a phase of a layer, as steps of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypar.program.holding import Holding
from hypar.program.steps import Compute, Item

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.layer import Layer
    from hypar.ops.nest import Operand, Sum
    from hypar.program.flow import Flow, Work
    from hypar.program.holding import Members


def add_statistics(
    flow: Flow, layer: Layer, work: Work, reads: Mapping[str, str], before: str = ""
) -> dict[str, str]:
    """Add up the sums of a phase, and return their arrays by role, their name; of the backward phase with ``back `` before it.

    A sum over dims that every device has whole needs no other device, unless it is a gradient.
    """
    names = [
        name
        for name, own in flow.nest(layer).sums.items()
        if own.backward is bool(before) and (name in layer.trained or _divided(own, work))
    ]
    if not names:
        return {}
    roles = {before + name: f"{before}{name} terms {layer.name}" for name in names}
    writes = {name: roles[before + name] for name in names}
    flow.steps.append(
        Compute(kind="statistics", layer=layer.name, pieces=work.pieces, reads=reads, writes=writes)
    )
    return {role: _add(flow, layer, work, role, array) for role, array in roles.items()}


def _divided(own: Sum, work: Work) -> bool:
    """Return whether devices lack terms of a sum."""
    active = _active(work)
    over = [members for dim, members in work.dims.items() if dim not in own.dims]
    return bool(own.together) or not all(members[active].all() for members in over)


def _active(work: Work) -> Members:
    return np.all([members.any(axis=1) for members in work.dims.values()], axis=0)  # type: ignore[no-any-return]


def _add(flow: Flow, layer: Layer, work: Work, role: str, array: str) -> str:
    """Add up one statistic over the devices that share its dims, and return the array of sums.

    Devices that compute nothing need the sum only if it is the gradient of a tensor that they hold.
    """
    nest, name = flow.nest(layer), role.removeprefix("back ")
    own = [work.dims[dim] for dim in nest.sums[name].dims]
    if nest.trained.get(name) and table_rows(nest.trained[name]):
        own = [rows_of(work.dims["batch"], table_rows(nest.trained[name])), *own]
    terms = need = Holding(tuple(members & _active(work)[:, None] for members in own))
    if sizes := nest.sums[name].together:
        pairs = zip(nest.sums[name].dims, need.members, strict=True)
        need = Holding(tuple(_whole(each, sizes.get(dim, 1)) for dim, each in pairs))
    if name != role and name in layer.trained:
        need = Holding(tuple(own))
    item = Item(layer.name, None, "forward" if name == role else "backward", "statistics")
    return flow.add(array, f"{role} {layer.name}", terms, need, work.copies, item)


def _whole(members: Members, size: int) -> Members:
    """Return the indices of a dim that devices have, with all others of runs of some size of which they have one."""
    return members.reshape(len(members), -1, size).any(axis=2).repeat(size, axis=1)


def rows_of(samples: Members, rows: int) -> Members:
    """Return the rows of a table that devices hold: all where they have samples."""
    return np.repeat(samples.any(axis=1, keepdims=True), rows, axis=1)


def table_rows(own: Operand) -> int:
    """Return the rows of a trained tensor that is a table; 0 if it is none."""
    return own.axes["rows"].size if "rows" in own.axes else 0
