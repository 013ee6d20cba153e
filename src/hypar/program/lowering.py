"""Lowering of a plan to a program: the forward pass, the loss, the backward pass and the updates.

A layer with choices (a weighted layer or a join; a pool where pools are planned) computes its own piece. Every other op
runs where the tensor that it reads lies. A piece of height and width has consecutive indices; samples and channels
are those that the device has already, as far as shares allow.

The backward pass has the transfers of the forward pass transposed: what was summed and scattered is gathered, and what was
read is summed. Devices that have read an element have a term of its error, and those that had the element get the sum; so it is
for each read, also for one that copied nothing. Several copies of one error are no terms: each is summed by itself, and where
none is a sum, who lacks the error takes the nearest copy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hypar.ops.dims import KERNEL, READ
from hypar.ops.nest import IN_GROUP, operand_name
from hypar.program.holding import Holding, flattened, in_place, members, one_each, pieces_of, reached
from hypar.program.layout import Layout, divide
from hypar.program.steps import Add, Compute, Copy, Item, Program, Return, Update, overlapping
from hypar.sharding.placement import partial_results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer, Tie
    from hypar.program.holding import Members
    from hypar.program.layout import Places
    from hypar.program.steps import Step

    Arrays = Mapping[str, str]

SPATIAL = ("height", "width")


def lower(
    graph: LayerGraph, places: Places, layouts: Mapping[str, Layout], convention: str = "moved"
) -> Program:
    """Lower a training step to a program.

    Args:
        graph: the network.
        places: the devices.
        layouts: the layout of each layer that has choices, by name.
        convention: what becomes of partial sums: ``moved`` adds them up for all who have a term, ``fused`` for those who
            need them next, ``direct`` sends the terms of errors straight to those who need their sums.
    """
    flow = _Flow(graph=graph, places=places, layouts=layouts, convention=convention)
    for layer in graph.layers:
        flow.made[layer.name] = _Lowered(flow, layer)
    for own in reversed(flow.made.values()):
        if own.trained:
            own.backward()
    return Program(graph=graph, places=places, steps=(*flow.steps, *flow.updates))


@dataclass(frozen=True, kw_only=True)
class _Flow:
    """A lowering under way: its arguments, the layers so far, and their steps; updates come last."""

    graph: LayerGraph
    places: Places
    layouts: Mapping[str, Layout]
    convention: str
    made: dict[str, _Lowered] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)

    @cached_property
    def next_choices(self) -> dict[str, tuple[Layer, str]]:
        """The only planned layer that reads an output, through ops without choices, and the operand that it is; by layer."""
        readers = Counter(name for layer in self.graph.layers for name in layer.inputs)
        found: dict[str, tuple[Layer, str]] = {}
        for layer in reversed(self.graph.layers):
            others = layer.nest(self.graph.batch).others
            for number, name in enumerate(layer.inputs):
                if readers[name] == 1 and layer.name in self.layouts:
                    found[name] = layer, operand_name(number if others else 0)
                elif readers[name] == 1 and layer.name in found:
                    found[name] = found[layer.name]
        return found

    def move(self, step: Copy) -> str:
        """Add a transfer, and return the array that it writes; where it moves nothing, the one that it would read."""
        terms = isinstance(step, Add) and overlapping(step.have, step.copies)
        have = step.have.on(step.copies >= 0) if isinstance(step, Add) else step.have
        if not terms and step.need.within(have):
            return step.source
        self.steps.append(step)
        return step.target


class _Lowered:
    """A layer of which the forward pass is lowered.

    Attributes:
        trained: whether its backward pass trains something.
        array, holding: the array of its output, and who has what of it.
        after: the layout after which later ops divide an image.
        output: who computes what of the output.
        inputs: the copies of its inputs, also those that move nothing.
        dims: for each dim of the op the indices that each device computes, ``[devices, size]``.
        copies: which copy of its terms each device has, where the op leaves terms.
        reads: the arrays that it reads, by their role.
        rests: whether it is a tensor at rest.
        errors: the arrays of what its readers have sent back, and who has what of them.
        users: the layers that use its weight, with how each would add up its terms of the gradient.
    """

    after: Layout

    def __init__(self, flow: _Flow, layer: Layer) -> None:
        self.flow, self.layer, self.name = flow, layer, layer.name
        self.nest = layer.nest(flow.graph.batch)
        self.sources = [flow.made[name] for name in layer.inputs]
        self.trained: bool = layer.num_parameters > 0 or any(source.trained for source in self.sources)
        self.errors: dict[str, tuple[str, Holding]] = {}
        self.users: list[tuple[Tie, Add]] = []
        self.chosen, self.array = self.name in flow.layouts, f"F {self.name}"
        self.rests = self.chosen and self.nest.view
        if layer.inputs:
            self.layout: Layout = flow.layouts[self.name] if self.chosen else self.sources[0].after
            self._forward()
            return
        devices, shape = flow.places.devices, self.nest.result.shape
        self.holding = self.output = Holding(tuple(np.ones((devices, size), bool) for size in shape))
        self.after = Layout(flow.places, ({},) * len(flow.places.parts), np.ones(devices, bool))

    def _compute(self, kind: str, of: Holding | None, reads: Arrays, writes: Arrays, **due: Holding) -> None:
        """Add a computation of what is read to what is written, on the pieces of the op or of some of its output."""
        dims = self.dims if of is None else dict(zip(self.nest.result.axes, of.members, strict=True))
        self.flow.steps.append(Compute(kind, self.name, pieces_of(dims), reads, writes, due))

    # Forward

    def _forward(self) -> None:
        """Bring the inputs to the devices that compute, add up statistics and partial sums, and add the bias."""
        name, nest, layout, move = self.name, self.nest, self.layout, self.flow.move
        dims = self._divided() if self.chosen else self._followed()
        needs, partial = self._needs(dims)
        self.inputs = [
            Copy(own.array, f"in {name} {at}", own.holding, need, Item(name, own.name, "forward", "input"))
            for at, (own, need) in enumerate(zip(self.sources, needs, strict=True))
        ]
        left = nest.result.dims if self.chosen else {*layout.dims} - nest.reduced
        self.after = layout.of({dim: dim for dim in left})
        terms = dims if self.chosen else layout.dims if partial else left
        # Who has an element of a tensor at rest has a term of its error.
        self.copies = np.where(layout.working, 0, -1) if self.rests else layout.copies(tuple(sorted(terms)))
        self.output, self.dims = Holding(members(nest.result, dims)), dims | partial
        self.reads = {operand_name(number): move(own) for number, own in enumerate(self.inputs)}
        self.reads = self.reads | self._statistics(self.reads)
        array = f"terms {name}" if nest.multiplies or partial else self.array
        self._compute("forward", None, self.reads, {"output": array})
        self.holding, self.after = self._left() if nest.multiplies else (self.output, self.after)
        if nest.multiplies or partial:
            target, item = (
                f"sums {name}" if nest.multiplies else self.array,
                Item(name, None, "forward", "output"),
            )
            sums = move(Add(array, target, self.output, self.holding, item, self.copies))
            if nest.multiplies:
                self._compute("finish", self.holding, {"output": sums}, {"output": self.array})
            else:
                self.array = sums

    def _divided(self) -> dict[str, Members]:
        """Return the indices of each loop dim that each device computes: of its inputs those that it has, if shares allow."""
        nest, flow, made = self.nest, self.flow, [own.holding.members for own in self.sources]
        held: dict[str, tuple[Members, ...]] = {}
        for operand, own in zip(nest.inputs, made, strict=True):
            for (axis, (_, dims, window, *_)), there in zip(operand.axes.items(), own, strict=True):
                if len(dims) == 1 and (nest.multiplies or axis not in SPATIAL):
                    held[dims[0]] = (*held.get(dims[0], ()), there)
                elif window is not None and axis not in nest.windows:
                    held[dims[0]] = (*held.get(dims[0], ()), reached(window, there, nest.sizes[dims[0]]))
        if nest.multiplies:
            reader = flow.next_choices.get(self.name)
            joined = reader[0].inputs if reader is not None and reader[0].op.node == "join" else ()
            others = tuple(flow.made[name].holding.members[0] for name in joined if name in flow.made)
            # Where all devices have all samples, they take those that they have of what a join reads beside the output.
            if others and all(own.all() for own in held.get("batch", ())):
                held["batch"] = others
        if nest.concatenates:
            held.pop("channels", None)
        sizes = {dim: size for dim, size in nest.sizes.items() if not dim.startswith(KERNEL)}
        found = {dim: divide(size, self.layout, dim, held.get(dim, ())) for dim, size in sizes.items()}
        if nest.concatenates:
            parts = [divide(own[1].shape[1], self.layout, "channels", own[1:2]) for own in made]
            found["channels"] = np.concatenate(parts, axis=1)
        return found

    def _followed(self) -> dict[str, Members]:
        """Return the indices of each output dim that each device computes of an op without choices: those that it has."""
        held, nest = self.sources[0].holding.members, self.nest
        if nest.view:
            return {"batch": held[0], "channels": flattened(held[1:])}
        found, windows = {"batch": held[0]}, nest.inputs[0].windows
        for (dim, size), own in zip(self.layer.shape.items(), held[1:], strict=False):
            if dim in nest.reduced:
                found[dim] = np.repeat(self.layout.working[:, None], size, axis=1)
            elif dim in {*SPATIAL, "depth"} and dim in windows:
                found[dim] = divide(size, self.layout, dim)
            elif dim in windows and size != own.shape[1]:
                found[dim] = in_place(windows[dim], own, size)
            else:
                found[dim] = own
        return found

    def _needs(self, dims: Mapping[str, Members]) -> tuple[list[Holding], dict[str, Members]]:
        """Return what each device reads of each input, and the input rows of which it adds up an average."""
        there, nest, partial = self.sources[0].holding, self.nest, dict[str, "Members"]()
        if nest.view and not self.rests:
            return [there], partial
        needs = [members(operand, dims) for operand in nest.inputs]
        if nest.reduce == "mean" and not self.chosen:
            working, axes = dims["batch"].any(axis=1), nest.inputs[0].axes
            for axis, own, held in zip(axes, needs[0], there.members, strict=True):
                if axis in nest.reduced and (own[working] & ~held[working]).any():
                    partial[axis] = own & held
            needs[0] = tuple(partial.get(axis, own) for axis, own in zip(axes, needs[0], strict=True))
        return [*map(Holding, needs)], {f"input_{axis}": own for axis, own in partial.items()}

    def _left(self) -> tuple[Holding, Layout]:
        """Return who gets the sums of F_out, and the layout in which they lie: by ``fused`` as the only reader divides them."""
        flow, nest, layout = self.flow, self.nest, self.layout
        reader = flow.next_choices.get(self.name) if flow.convention == "fused" else None
        terms = {dim for dim in layout.dims if "output" in partial_results(nest, dim)}
        if reader is None or not terms or not (layout.working & flow.layouts[reader[0].name].working).any():
            return self.output, self.after
        read_as = _ungrouped(reader[0].nest(flow.graph.batch).names.get(reader[1], {}))
        read_as.pop("groups", None)
        after = layout.scattered(
            flow.layouts[reader[0].name], _ungrouped(nest.names["output"]), read_as, terms
        )
        left = [
            divide(own.shape[1], after, dim, () if dim in SPATIAL else (own,))
            for dim, own in zip(nest.result.axes, self.output.members, strict=True)
        ]
        return Holding(tuple(left)), after

    def _statistics(self, reads: Arrays, before: str = "") -> dict[str, str]:
        """Add up the sums of a phase, and return their arrays by role, their name; of the backward phase with ``back `` before it.

        A sum over dims that every device has whole needs no other device, unless it is a gradient. Devices that compute
        nothing need the sum only if it is the gradient of a tensor that they hold.
        """
        nest, dims, own = self.nest, self.dims, self.layer.trained
        needed, active = list[str](), np.all([each.any(axis=1) for each in dims.values()], axis=0)
        for name, sum_ in nest.sums.items():
            whole = all(each[active].all() for dim, each in dims.items() if dim not in sum_.dims)
            if sum_.backward is bool(before) and (name in own or sum_.together or not whole):
                needed.append(name)
        if not needed:
            return {}
        writes = {name: f"{before}{name} terms {self.name}" for name in needed}
        self._compute("statistics", None, reads, writes)
        item, found = Item(self.name, None, "backward" if before else "forward", "statistics"), {}
        for name, terms in writes.items():
            trained, sum_, role = nest.trained.get(name), nest.sums[name], f"{before}{name}"
            held = Holding(members(trained, dims) if trained else tuple(dims[dim] for dim in sum_.dims))
            have, runs = held.on(active), [sum_.together.get(dim, 1) for dim in sum_.dims]
            need = held if name in own else Holding(tuple(map(_whole, have.members, runs)))
            found[role] = self.flow.move(Add(terms, f"{role} {self.name}", have, need, item, self.copies))
        return found

    # Backward

    def backward(self) -> None:
        """Add up what readers have sent back, or take the loss; compute what is sent back from here, and gradients."""
        error, kind = f"E {self.name}", "error" if self.errors else "loss"
        sent = self.errors or {"output": (self.array, self.holding)}
        reads = {role: own for role, (own, _) in sent.items()}
        due = {role: own for role, (_, own) in sent.items()}
        self._compute(kind, self.holding, reads, {"error": error}, **due)
        if self.holding.content != self.output.content:
            item = Item(self.name, None, "backward", "output")
            error = self.flow.move(Copy(error, f"E all {self.name}", self.holding, self.output, item))
        reads = {**self.reads, "error": error}
        sums = self._statistics(reads, "back ")
        trained = [number for number, source in enumerate(self.sources) if source.trained]
        writes = {operand_name(number): f"E terms {self.name} {number}" for number in trained}
        if self.layer.weighted:
            writes |= {name: f"d terms {self.name} {name}" for name in self.nest.trained}
        pieces = pieces_of(self.dims, self.nest.result.dims)
        self.flow.steps.append(Compute("backward", self.name, pieces, reads | sums, writes))
        for number in trained:
            self._return(number)
        for name in dict.fromkeys((*(["weight"] if self.layer.op.tied else []), *self.layer.trained)):
            self._update(name, sums.get(f"back {name}"))

    def _return(self, number: int) -> None:
        """Add the transpose of a read: the terms of an input's error are summed for the devices that have what is read of it.

        By ``moved``, and where no device has both ends, the sums come to devices that have terms first, and are then copied.
        """
        read, copies, name = self.inputs[number], self.copies, f"{self.name} {number}"
        pairs = zip(read.have.members, read.need.members, strict=True)
        need = Holding(tuple(own & there.any(axis=0) for own, there in pairs))
        item, array, target = read.item._replace(phase="backward"), f"E terms {name}", f"E {name}"
        step: Copy = Add(array, target, read.need, need, item, copies)
        if self.sources[number].rests:
            step = Return(array, target, read.need, need, item, copies)
        elif self.flow.convention == "moved" or not read.have.meets(read.need):
            sums, inside = one_each(read.need, read.have), item._replace(maker=None)
            array = self.flow.move(Add(array, f"E sums {name}", read.need, sums, inside, copies))
            step = Copy(array, target, sums, need, item)
        elif not overlapping(read.need, copies):
            step = Copy(array, target, read.need, need, item)
        errors, error = self.sources[number].errors, self.flow.move(step)
        stays = isinstance(step, Return) and error == array
        errors[str(len(errors))] = error, read.need if stays else need

    def _update(self, name: str, summed: str | None) -> None:
        """Add up the gradient of a trained tensor, and update it where it is held.

        The terms of a weight that an earlier layer has are left to that one, which adds up those of all its users at once.
        """
        flow, users = self.flow, self.users if name == "weight" else []
        terms, need = self._held(name)
        if summed is None:
            dims = tuple(dim for dim in self.dims if name == "weight" or not dim.startswith(READ))
            copies, item = self.layout.copies(dims), Item(self.name, None, "gradient", name)
            own = Add(f"d terms {self.name} {name}", f"d {self.name} {name}", terms, need, item, copies)
            for tie in flow.graph.ties:
                if (tie.user, "weight") == (self.name, name):
                    flow.made[tie.owner].users.append((tie, own))
                    return
            own = self._of_users(own) if users else own
            summed, need = flow.move(own), own.need
        flow.updates.append(Update(self.name, name, summed, need, tuple(tie for tie, _ in users)))

    def _of_users(self, own: Add) -> Add:
        """Return how the terms of all users of a weight are added up, after each device has added up those that it has."""
        every = {"": (own.have, own)}
        for tie, step in self.users:
            every[tie.user] = Holding(tuple(step.have.members[axis] for axis in tie.axes)), step
        copies = np.maximum.reduce([step.copies for _, step in every.values()])
        whole = {str(axis): np.arange(size) for axis, size in enumerate(own.have.shape)}
        pieces = tuple(None if copy < 0 else whole for copy in copies)
        reads = {role: step.source for role, (_, step) in every.items()}
        target = f"d terms {self.name} of all"
        # Where several devices have the terms of one piece, those of the first count.
        due = {role: have.on(step.copies == 0) for role, (have, step) in every.items()}
        self.flow.steps.append(Compute("tied", self.name, pieces, reads, {"weight": target}, due))
        first, *more = (have.members for have, _ in every.values())
        have = Holding(first, tuple(more))
        return replace(own, source=target, have=have, need=have, copies=np.minimum(copies, 0))

    def _held(self, name: str) -> tuple[Holding, Holding]:
        """Return who has terms of the gradient of a trained tensor, and who holds it: a bias also where sums lie."""
        own, devices = self.nest.trained[name], self.flow.places.devices
        whole = {dim: np.ones((devices, size), bool) for dim, size in self.nest.sizes.items()}
        terms = members(own, whole | self.dims)
        lie = zip(self.nest.result.axes, self.holding.members, strict=True)
        sums = dict(lie) if self.layer.weighted and name == "bias" else {}
        held = [each | sums.get(axis, each) for axis, each in zip(own.axes, terms, strict=True)]
        return Holding(terms), Holding(tuple(held))


def _whole(each: Members, size: int) -> Members:
    """Return the indices of a dim that devices have, with all others of runs of some size of which they have one."""
    return each.reshape(len(each), -1, size).any(axis=2).repeat(size, axis=1)


def _ungrouped(names: Mapping[str, str]) -> dict[str, str]:
    """Return the tensor's names for op dims, those of the channels of a group as channels."""
    return {dim: "channels" if axis == IN_GROUP else axis for dim, axis in names.items()}
