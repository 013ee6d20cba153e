"""Lowering of a plan to a program: the forward pass, the loss, the backward pass and the updates, from the fragment of each layer.

The steps of a program are what every device computes, gets of others, and updates. They name the arrays that they read and write; an
array is written once. Every array is as large as its tensor on every device, of which a device has the elements of its holding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.network.nodes import LayerOp, block_of
from hypar.network.training import GATHERED
from hypar.ops.nest import operand_name
from hypar.program.fragments import Fragment, following, gathered_again, rest_of
from hypar.program.holding import Holding, Members, Transfer, members, pieces_of
from hypar.sharding.layout import Copies, Layout, Places

if TYPE_CHECKING:
    from hypar.network.graph import LayerGraph
    from hypar.network.layer import Layer, Tie
    from hypar.ops.run import Piece

Arrays = Mapping[str, str]


class Item(NamedTuple):
    """What a transfer is for.

    Attributes:
        layer: name of the layer inside which it happens, or that reads the tensor.
        maker: name of the layer that makes the tensor; None inside a layer.
        phase: ``forward``, ``backward``, ``gradient``, or ``weight`` of one that is gathered.
        tensor: ``input``, ``output``, ``weight``, ``bias`` or ``statistics``.
    """

    layer: str
    maker: str | None
    phase: str
    tensor: str


@dataclass(frozen=True, eq=False, slots=True)
class Move:
    """Devices get of each other what they need of an array.

    Attributes:
        source: the array that is read.
        target: the array that is written.
        item: what it is for.
        transfer: the transfer.
        once: whether it runs once, behind all microbatches.
    """

    source: str
    target: str
    item: Item
    transfer: Transfer
    once: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Compute:
    """Every device computes on its own piece, and moves nothing.

    Attributes:
        kind: ``forward``, ``finish`` (the bias), ``statistics`` (the terms of a phase's sums), ``backward``, ``loss``, or a sum
            that each device takes of what it has: ``error`` (what all readers of a tensor send back), ``tied`` (the terms of
            all layers that use a weight).
        layer: name of the layer.
        pieces: the piece of each device; None for a device that computes nothing.
        reads: the arrays that it reads, by their role.
        writes: the arrays that it writes, by their role.
        due: for a kind that reads what not all devices have, who has what of each array, by its role.
    """

    kind: str
    layer: str
    pieces: tuple[Piece | None, ...]
    reads: Mapping[str, str]
    writes: Mapping[str, str]
    due: Mapping[str, Holding] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Update:
    """Every device updates its own elements of a trained tensor.

    Attributes:
        layer: name of the layer.
        parameter: name of the tensor, as ``weight``.
        gradient: the array of its summed gradient.
        holding: who holds what of it between steps.
        ties: the other layers that use the tensor.
        rest: who updates what; None for all that devices hold.
        writes: the array of what is updated, where it is gathered.
        gathered: the array behind that; the next step begins with it.
    """

    layer: str
    parameter: str
    gradient: str
    holding: Holding
    ties: tuple[Tie, ...] = ()
    rest: Holding | None = None
    writes: str = ""
    gathered: str = ""


Step = Move | Compute | Update


def runs_once(step: Step) -> bool:
    """Return whether a step runs once, behind all microbatches."""
    return isinstance(step, Update) or (isinstance(step, Move) and step.once)


@dataclass(frozen=True, eq=False, kw_only=True)
class Program:
    """A training step on the devices of a plan.

    Attributes:
        graph: the network.
        places: the devices.
        steps: the steps in order.
        fragments: the fragment of each layer, by name.
    """

    graph: LayerGraph
    places: Places
    steps: tuple[Step, ...]
    fragments: Mapping[str, Fragment]

    @property
    def transfers(self) -> dict[int, Move]:
        """The steps that may move elements, by their number among all steps."""
        return {number: step for number, step in enumerate(self.steps) if isinstance(step, Move)}

    @property
    def updates(self) -> list[Update]:
        """The updates of trained tensors."""
        return [step for step in self.steps if isinstance(step, Update)]


def lower(
    graph: LayerGraph,
    places: Places,
    layouts: Mapping[str, Layout],
    convention: str = "moved",
    zero: int = 0,
    again: frozenset[str] = frozenset(),
    shards: frozenset[str] = frozenset(),
) -> Program:
    """Lower a training step to a program.

    Args:
        graph: the network.
        places: the devices.
        layouts: the layout of each layer that has choices, by name.
        convention: what becomes of partial sums: ``moved`` adds them up for all who have a term, ``fused`` for those who
            need them next, ``direct`` sends the terms of errors straight to those who need their sums.
        zero: the stage of ZeRO by which weights rest.
        again: the names of the blocks that the backward phase computes again; a single layer's backward phase does so by itself.
        shards: the names of the layers of whose gathered inputs devices keep shards, which they gather again.
    """
    whole = Layout(places, ({},) * len(places.parts), np.ones(places.devices, bool))
    ops = [LayerOp(layer, layer.nest(graph.batch)) for layer in graph.layers]
    flow = _Flow(graph=graph, places=places, zero=zero, shards=shards)
    fragments = following(ops, layouts, whole, convention)
    for layer, fragment in zip(graph.layers, fragments.values(), strict=True):
        flow.made[layer.name] = _Lowered(flow, layer, fragment)
    for name in reversed([*flow.made]):
        if (block := block_of(name)) in again and block != name and not flow.made[name].again:
            for own in [own for own in flow.made.values() if block_of(own.name) == block and own.sources]:
                flow.made[own.name] = _Lowered(flow, own.layer, own.fragment, own)
        if flow.made[name].fragment.trained:
            flow.made[name].backward()
    steps = (*flow.steps, *flow.updates, *flow.gathers)
    return Program(graph=graph, places=places, steps=steps, fragments=fragments)


@dataclass(frozen=True, kw_only=True)
class _Flow:
    """A lowering under way: its arguments, the layers so far, and their steps; updates come last."""

    graph: LayerGraph
    places: Places
    zero: int
    shards: frozenset[str]
    made: dict[str, _Lowered] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    gathers: list[Step] = field(default_factory=list)

    def move(self, own: Transfer, source: str, target: str, item: Item, *, once: bool = False) -> str:
        """Add a transfer, and return the array that it writes; where it moves nothing, the one that it would read."""
        if not own.moves:
            return source
        self.steps.append(Move(source, target, item, own, once))
        return target


class _Lowered:
    """A layer of which the forward pass is lowered.

    Attributes:
        array: the array of its output.
        dims: for each dim of the op the indices that each device computes, ``[devices, size]``.
        reads: the arrays that it reads, by their role.
        errors: the arrays of what its readers have sent back, and who has what of them.
        users: the layers that use its weight, with how each would add up its terms of the gradient.
        anew: the arrays of inputs that are gathered again, by their number.
    """

    def __init__(self, flow: _Flow, layer: Layer, fragment: Fragment, before: _Lowered | None = None) -> None:
        """Lower the forward phase, perhaps once more for the backward phase of a layer as it was ``before``."""
        self.flow, self.layer, self.name, self.fragment = flow, layer, layer.name, fragment
        self.nest = fragment.nest
        self.holding, self.output = fragment.left[0], fragment.output
        self.sources = [flow.made[name] for name in layer.inputs]
        self.errors: dict[str, tuple[str, Holding]] = {} if before is None else before.errors
        self.users: list[tuple[Tie, str, Transfer]] = [] if before is None else before.users
        self.again, self.tag = before is not None, self.name if before is None else f"{self.name} again"
        self.array, self.anew = f"F {self.tag}", dict[int, str]()
        tied = any(self.name in {tie.owner, tie.user} for tie in flow.graph.ties)
        own = None if tied or flow.zero < GATHERED or not self.weighs else fragment.gradient("weight")
        self.rest = None if own is None else rest_of((fragment,), own)
        if layer.inputs:
            partial = {f"input_{axis}": own for axis, own in fragment.partial.items()}
            self.dims: Mapping[str, Members] = {**fragment.dims, **partial}
            self._forward({} if before is None else before.reads)

    @property
    def weighs(self) -> bool:
        """Whether it is a node with a weight, which may rest in shares."""
        return self.layer.weighted and bool(self.nest.weight)

    def _weight(self, phase: str) -> dict[str, str]:
        """Gather the weight for a phase where it rests in shares between its uses, and return its array by its role.

        What is gathered for a phase that is computed again stays until the layer goes backward.
        """
        if self.rest is None:
            return {}
        item, target = Item(self.name, None, "weight", "weight"), f"W {phase} {self.tag}"
        if phase == "backward" and self.again:
            return {"weight": f"W forward {self.tag}"}
        return {"weight": self.flow.move(self.rest.gathered, f"W share {self.name}", target, item)}

    def _compute(self, kind: str, of: Holding | None, reads: Arrays, writes: Arrays, **due: Holding) -> None:
        dims = self.dims if of is None else dict(zip(self.nest.result.axes, of.members, strict=True))
        self.flow.steps.append(Compute(kind, self.name, pieces_of(dims), reads, writes, due))

    # Forward

    def _forward(self, kept: Arrays) -> None:
        """Bring the inputs to the devices that compute, add up statistics and partial sums, and add the bias.

        What has come from other stages is ``kept`` for a second time.
        """
        name, nest, move, summed = self.name, self.nest, self.flow.move, self.fragment.summed
        self.reads = dict[str, str]()
        for at, (source, own) in enumerate(zip(self.sources, self.fragment.reads, strict=True)):
            role, item = operand_name(at), Item(name, source.name, "forward", "input")
            if kept and own.moves and not own.have.meets(own.need):
                self.reads[role] = kept[role]
            else:
                self.reads[role] = move(own, source.array, f"in {self.tag} {at}", item)
        self.reads = self.reads | self._statistics(self.reads)
        array = f"terms {self.tag}" if summed else self.array
        self._compute("forward", None, {**self.reads, **self._weight("forward")}, {"output": array})
        if summed:
            target, item = (
                f"sums {self.tag}" if nest.multiplies else self.array,
                Item(name, None, "forward", "output"),
            )
            sums = move(summed, array, target, item)
            if nest.multiplies:
                self._compute("finish", self.holding, {"output": sums}, {"output": self.array})
            else:
                self.array = sums

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
        writes = {name: f"{before}{name} terms {self.tag}" for name in needed}
        self._compute("statistics", None, reads, writes)
        item, found = Item(self.name, None, "backward" if before else "forward", "statistics"), {}
        for name, terms in writes.items():
            trained, sum_, role = nest.trained.get(name), nest.sums[name], f"{before}{name}"
            held = Holding(members(trained, dims) if trained else tuple(dims[dim] for dim in sum_.dims))
            have, runs = held.on(active), [sum_.together.get(dim, 1) for dim in sum_.dims]
            need = held if name in own else Holding(tuple(map(_whole, have.members, runs)))
            found[role] = self.flow.move(self.fragment.adding(have, need), terms, f"{role} {self.tag}", item)
        return found

    # Backward

    def backward(self) -> None:
        """Add up what readers have sent back, or take the loss; compute what is sent back from here, and gradients."""
        error, kind, gathered = f"E {self.name}", "error" if self.errors else "loss", self.fragment.gathered
        sent = self.errors or {"output": (self.array, self.holding)}
        reads = {role: own for role, (own, _) in sent.items()}
        due = {role: own for role, (_, own) in sent.items()}
        self._compute(kind, self.holding, reads, {"error": error}, **due)
        if gathered:
            item = Item(self.name, None, "backward", "output")
            error = self.flow.move(gathered, error, f"E all {self.name}", item)
        reads = {**self.reads, **self._gathered_again(), "error": error}
        sums = self._statistics(reads, "back ")
        trained = [number for number, source in enumerate(self.sources) if source.fragment.trained]
        writes = {operand_name(number): f"E terms {self.name} {number}" for number in trained}
        if self.layer.weighted:
            writes |= {name: f"d terms {self.name} {name}" for name in self.nest.trained}
        pieces = pieces_of(self.dims, self.nest.result.dims)
        self.flow.steps.append(
            Compute("backward", self.name, pieces, reads | sums | self._weight("backward"), writes)
        )
        for number in trained:
            self._return(number)
        for name in dict.fromkeys((*(["weight"] if self.layer.op.tied else []), *self.layer.trained)):
            self._update(name, sums.get(f"back {name}"))

    def _gathered_again(self) -> dict[str, str]:
        """Return the arrays, by their role, of the inputs of which devices keep shards, gathered once for all that read them."""
        flow, inputs = self.flow, self.layer.inputs
        fragments = {name: flow.made[name].fragment for name in (*inputs, self.name)}
        every = gathered_again(self.name, inputs, fragments, flow.shards)
        return {operand_name(at): flow.made[reader].whole_again(number) for at, reader, number in every}

    def whole_again(self, number: int) -> str:
        """Gather an input again, unless it is there, and return its array."""
        if number not in self.anew:
            source, own = self.sources[number], self.fragment.reads[number]
            item = Item(self.name, source.name, "forward", "input")
            self.anew[number] = self.flow.move(own, source.array, f"in {self.name} {number} again", item)
        return self.anew[number]

    def _return(self, number: int) -> None:
        array, source, name = f"E terms {self.name} {number}", self.sources[number], f"{self.name} {number}"
        *sums, last = self.fragment.returned[number]
        for own in sums:
            item = Item(self.name, None, "backward", "input")
            array = self.flow.move(own, array, f"E sums {name}", item)
        error = self.flow.move(last, array, f"E {name}", Item(self.name, source.name, "backward", "input"))
        stays = last.kind == "return" and error == array
        source.errors[str(len(source.errors))] = error, last.have if stays else last.need

    def _update(self, name: str, summed: str | None) -> None:
        """Add up the gradient of a trained tensor, and update it where it is held.

        The terms of a weight that an earlier layer has are left to that one, which adds up those of all its users at once.
        """
        flow, users = self.flow, self.users if name == "weight" else []
        added, rest = self.fragment.gradient(name), None
        if summed is None:
            source, item = f"d terms {self.name} {name}", Item(self.name, None, "gradient", name)
            for tie in flow.graph.ties:
                if (tie.user, "weight") == (self.name, name):
                    flow.made[tie.owner].users.append((tie, source, added))
                    return
            source, added = self._of_users(source, added) if users else (source, added)
            if name == "weight" and flow.zero and self.weighs:
                rest = rest_of((self.fragment, *(flow.made[tie.user].fragment for tie, *_ in users)), added)
            own, once = added if rest is None else rest.summed, rest is None or flow.zero == 1 or bool(users)
            summed = flow.move(own, source, f"d {self.name} {name}", item, once=once)
        found = Update(self.name, name, summed, added.need, tuple(tie for tie, *_ in users))
        if rest is None:
            flow.updates.append(found)
        elif self.rest is not None:
            flow.updates.append(replace(found, holding=rest.summed.need))
        else:
            made, whole = f"new share {self.name}", f"new {self.name}"
            flow.updates.append(replace(found, rest=rest.summed.need, writes=made, gathered=whole))
            item = Item(self.name, None, "weight", name)
            flow.gathers.append(Move(made, whole, item, rest.gathered, once=True))

    def _of_users(self, source: str, own: Transfer) -> tuple[str, Transfer]:
        """Return how the terms of all users of a weight are added up, after each device has added up those that it has."""
        every = {"": (source, own.have, own.copies)}
        for tie, array, added in self.users:
            have = Holding(tuple(added.have.members[axis] for axis in tie.axes))
            every[tie.user] = array, have, added.copies
        copies = np.maximum.reduce([each.number for *_, each in every.values()])
        whole = {str(axis): np.arange(size) for axis, size in enumerate(own.have.shape)}
        pieces = tuple(None if copy < 0 else whole for copy in copies)
        reads = {role: array for role, (array, *_) in every.items()}
        target = f"d terms {self.name} of all"
        # Where several devices have the terms of one piece, those of the first count.
        due = {role: have.on(each.number == 0) for role, (_, have, each) in every.items()}
        self.flow.steps.append(Compute("tied", self.name, pieces, reads, {"weight": target}, due))
        first, *more = (have.members for _, have, _ in every.values())
        have = Holding(first, tuple(more))
        return target, self.fragment.adding(have, have, Copies(np.minimum(copies, 0)))


def _whole(each: Members, size: int) -> Members:
    """Return the indices of a dim that devices have, with all others of runs of some size of which they have one."""
    return each.reshape(len(each), -1, size).any(axis=2).repeat(size, axis=1)
