"""What an op is: a loop nest over named dims, with how the loops index each tensor, and all that follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from hypar.ops.dims import CUTTABLE, KERNEL, in_order
from hypar.ops.windows import Window

IN_GROUP = "channels_in_group"
"""The name in tensors of the channels of each group: no consecutive channels, which a neighbour may cut."""

Role = Literal["activation", "weight", "parameter"]
"""A tensor that comes from another layer, a trained one that is contracted, or one that meets each element."""


class Projection(NamedTuple):
    """How loop dims index one axis of a tensor.

    Attributes:
        size: elements of the axis.
        dims: the loop dims, of several the first outermost; none for an axis that is read whole.
        window: the window along the axis; ``dims`` are then its output and its tap, which one of a single tap may lack.
        turns: whether the places of the dims go round the axis, as round the rows of a table.
    """

    size: int
    dims: tuple[str, ...] = ()
    window: Window | None = None
    turns: bool = False


class Operand(NamedTuple):
    """A tensor of an op: how its axes, by name in the order of its array, are indexed, and what it is."""

    axes: Mapping[str, Projection]
    role: Role = "activation"

    @classmethod
    def of(cls, axes: Axes, sizes: Mapping[str, int], role: Role = "activation") -> Operand:
        """Return an operand of some axes; ``sizes`` are those of the loop dims."""
        found = {}
        for axis, own in axes.items():
            dims = (axis,) if isinstance(own, int) else (own,) if isinstance(own, str) else own
            plain = not isinstance(own, Projection)
            found[axis] = Projection(math.prod(sizes[dim] for dim in dims), dims) if plain else own
        return cls(found, role)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its axes."""
        return tuple(own.size for own in self.axes.values())

    @property
    def dims(self) -> tuple[str, ...]:
        """The loop dims that its axes are indexed by."""
        return tuple(dim for own in self.axes.values() for dim in own.dims)

    @property
    def windows(self) -> dict[str, Window]:
        """The window along each axis that has one."""
        return {axis: own.window for axis, own in self.axes.items() if own.window is not None}

    @property
    def names(self) -> dict[str, str]:
        """The axis that each loop dim indexes, but the taps of windows; the channels of a group have a name of their own."""
        found: dict[str, str] = {}
        for axis, own in self.axes.items():
            if "groups" in own.dims:
                found |= {"groups": axis, own.dims[-1]: IN_GROUP}
            elif own.dims:
                found[own.dims[0]] = axis
        return found


Axes = Mapping[str, Any]
"""The axes of a tensor by their names: the size of one that a loop dim of its name indexes, the loop dims, or more than that."""


class Sum(NamedTuple):
    """A partial sum that devices add up on the way through a phase, over the loop dims that it does not keep.

    Attributes:
        dims: the loop dims that it keeps.
        backward: whether the backward phase needs it; one named as a parameter is its gradient.
        together: of some of these dims how many indices next to each other need the sums of each other.
    """

    dims: tuple[str, ...]
    backward: bool = False
    together: Mapping[str, int] = {}


class Saved(NamedTuple):
    """The memory that an op keeps from its forward phase until its backward phase.

    Attributes:
        input: whether it keeps its input.
        output: whether it keeps its output.
        elements: further numbers of the network's number format.
        mask_bytes: bytes of a mask or of indices.
        statistics: numbers of the network's number format for all samples together; as many are untrained, as running means.
    """

    input: bool = False
    output: bool = False
    elements: int = 0
    mask_bytes: int = 0
    statistics: int = 0


class Traffic(NamedTuple):
    """The elements that an op reads from memory and writes to it besides the tensors of a product, and its operations.

    Attributes:
        forward, backward: elements that the forward, and the backward phase reads and writes.
        mask_bytes: bytes of a mask or of indices that the forward phase writes and the backward phase reads.
        flop: operations of the forward phase; the backward phase takes as many if it moves anything.
        contracted: of an op behind a layer, the dims of the layer's output that ops before it have summed over.
    """

    forward: float = 0
    backward: float = 0
    mask_bytes: float = 0
    flop: float = 0
    contracted: frozenset[str] = frozenset()


PHASES = {"forward": "output", "backward": "input", "gradient": "weight"}
"""The three contractions of a layer with a weight, each with the one of its tensors that results from the two others."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Nest:
    """An op on a mini-batch. Nests are compared by identity, so that results can be cached by nest.

    Forward ``F_out = F_in . W``, backward ``E_in = E_out . W'``, gradient ``dW = F_in' . E_out``. A loop dim is one dim of a
    tensor, under the tensor's own name for it: the ``in_channels`` of the loops are the ``channels`` of F_in.

    Attributes:
        sizes: size of each loop dim, of height and width that of the output; below shares of an uneven split a real number.
        operands: the tensors that it reads by name: ``input``, ``input 1`` and so on, ``weight`` and other trained ones.
        result: the axes of its output.
        reduce: what becomes of the dims that the output lacks.
        products: the loop dims of each product of two tensors, where the op is a chain of several; empty for one product.
        fraction: the part of these products that is computed, as a half below the diagonal of causal attention.
        whole: loop dims that no choice may divide.
        together: axes of its input that the maker of the input may not divide.
        rounds: indices that it takes at a time of some axes, where these are more than one.
        sums: the partial sums that devices add up on the way, by name.
        saved: what it keeps for its backward phase.
        operations: floating-point operations, forward, of an op without a product.
        more: elements that the forward and the backward phase move besides what all ops move.
        passes: whether the error of an input is the error of the output, or a part of it.
        view: whether its output is its input in another shape, without memory of its own.
        zeros: fraction of zeros in ``input`` and ``output``, where the network gives it.
        behind: what the ops behind the layer read and write, an element of its output.
        sends: whether there is an error of its input: nobody computes that of the network's input.
        input_sizes: sizes of the input along the windows of an image.
        input_elements: elements of the input.
    """

    sizes: Mapping[str, Any]
    operands: Mapping[str, Operand]
    result: Operand
    reduce: Literal["sum", "max", "mean"] = "sum"
    products: tuple[tuple[str, ...], ...] = ()
    fraction: float = 1.0
    whole: frozenset[str] = frozenset()
    together: frozenset[str] = frozenset()
    rounds: Mapping[str, int] = field(default_factory=dict)
    sums: Mapping[str, Sum] = field(default_factory=dict)
    saved: Saved = field(default_factory=Saved)
    operations: int = 0
    more: tuple[int, int] = (0, 0)
    passes: bool = False
    view: bool = False
    zeros: Mapping[str, float] = field(default_factory=dict)
    behind: tuple[Traffic, ...] = ()
    sends: bool = True
    input_sizes: Mapping[str, Any] = field(default_factory=dict)
    input_elements: Any = 0

    # Tensors

    @cached_property
    def inputs(self) -> tuple[Operand, ...]:
        """The tensors that come from other layers."""
        return tuple(own for own in self.operands.values() if own.role == "activation")

    @cached_property
    def trained(self) -> Mapping[str, Operand]:
        """The trained tensors by their names in frameworks."""
        return {name: own for name, own in self.operands.items() if own.role != "activation"}

    @cached_property
    def names(self) -> Mapping[str, Mapping[str, str]]:
        """The loop dims that each tensor carries, with its own name for each: ``input``, ``weight``, ``output``, then ``others``."""
        first, *others = [own.names for own in (self.inputs if self.products else self.inputs[:1])]
        weight = {dim: dim for own in self.operands.values() if own.role == "weight" for dim in own.dims}
        further = {operand_name(number): own for number, own in enumerate(others, start=1)}
        return {"input": first, "weight": weight, "output": self.result.names, **further}

    @property
    def weight(self) -> Mapping[str, str]:
        """The loop dims that W and dW carry; none without a weight that is contracted."""
        return self.names["weight"]

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the further inputs of a product of activations: ``input 1`` and so on."""
        return (*self.names,)[3:]

    @cached_property
    def windows(self) -> Mapping[str, Window]:
        """The windows along the dims of an image that a choice may divide."""
        return {dim: own for dim, own in self.inputs[0].windows.items() if dim in self.input_sizes}

    def elements(self, tensor: str) -> int:
        """Return the elements of the whole tensor; 0 for the weight of an op without one."""
        if tensor == "input":
            return self.input_elements  # type: ignore[no-any-return]  # of real sizes a real number
        dims = self.names.get(tensor)
        return math.prod([self.sizes[dim] for dim in dims]) if dims else 0

    # What a choice may divide

    @cached_property
    def cuttable(self) -> tuple[str, ...]:
        """The dims that a choice may divide, in their order in plan files."""
        return tuple(in_order(dim for dim in {*self.sizes} - self.whole if not dim.startswith(KERNEL)))

    @cached_property
    def counted(self) -> tuple[str, ...]:
        """The dims for which degrees are counted: those of convolutions, and the others that the tensors carry."""
        dims = {*CUTTABLE}.union(*self.names.values())
        return tuple(in_order(dim for dim in dims if not dim.startswith(KERNEL)))

    @cached_property
    def extra(self) -> tuple[str, ...]:
        """The dims besides those of convolutions that the tensors carry, in their order on devices."""
        return self.counted[len(CUTTABLE) :]

    @property
    def multiplies(self) -> bool:
        """Whether tensors are multiplied: by a weight, by each other, or by a selection of elements."""
        return bool(self.weight or self.products)

    @cached_property
    def reduced(self) -> frozenset[str]:
        """The axes of its input that a pool reduces to one element, so that no op behind it finds them divided."""
        pools = self.reduce != "sum"
        return frozenset(axis for axis in self.inputs[0].windows if pools and self.sizes[axis] == 1)

    @property
    def concatenates(self) -> bool:
        """Whether its output is its inputs' channels one behind the other."""
        return any("channels" in own.windows for own in self.inputs[1:])

    # Operations and memory

    @cached_property
    def steps(self) -> Mapping[str, Any]:
        """The loop counts of the contraction: ``sizes``, but for inputs instead of outputs along transposed windows."""
        over = {dim: self.input_sizes[dim] for dim, window in self.windows.items() if window.transposed}
        return {**self.sizes, **over} if over else self.sizes

    @cached_property
    def macs(self) -> int:
        """Number of multiply-accumulates in the forward phase; 0 where nothing is multiplied."""
        if self.products:
            return int(self.macs_among({}))
        return math.prod(self.steps.values()) if self.weight else 0

    def macs_among(self, degrees: Mapping[str, Any]) -> Any:
        """Return the multiply-accumulates of each of the devices that divide some dims alike."""
        if not self.products:
            return self.macs / math.prod(degrees.get(dim, 1) for dim in self.sizes)
        sizes = {dim: size / degrees.get(dim, 1) for dim, size in self.sizes.items()}
        return self.fraction * sum(math.prod(sizes[dim] for dim in dims) for dims in self.products)

    @cached_property
    def traffic(self) -> Traffic:
        """What it reads and writes of a mini-batch besides the tensors of a product.

        The forward phase reads each input once, and writes the output and what else is kept. The backward phase reads the
        error of the output and what was kept, and writes the error of each input, unless that is the error of the output.
        """
        (forward, backward), saved = self.more, self.saved
        if self.view or self.multiplies:
            return Traffic(forward, backward)
        read, made = sum(math.prod(own.shape) for own in self.inputs), math.prod(self.result.shape)
        forward += read + made + saved.elements
        if not self.passes:
            backward += made + read + read * saved.input + made * saved.output + saved.elements
        return Traffic(forward, backward, saved.mask_bytes, self.operations)

    @cached_property
    def flop(self) -> Mapping[str, int]:
        """The floating-point operations of each phase: ``2 n - 1`` for every result element that contracts n terms.

        A contraction of less than one term, which a fractional share may leave, needs no additions. The outputs of
        transposed windows contract fewer terms at a border, so their products are counted together.

        Source: AccPar (HPCA 2020), the operation counts of its computation cost.
        """
        macs, steps = self.macs, self.steps
        if not macs or self.products:
            return dict.fromkeys(PHASES, 2 * macs)
        found = {}
        for phase, result in PHASES.items():
            terms = math.prod(size for dim, size in steps.items() if dim not in self.names[result])
            found[phase] = self.elements(result) * (terms + max(0, terms - 1))
        if steps != self.sizes:
            found["forward"] = macs + max(0, macs - self.elements("output"))
        return found

    @cached_property
    def unsized(self) -> Nest:
        """The nest of the same dims without sizes; nests with equal dims share one object."""
        key = (self.view, *(tuple(own.items()) for own in self.names.values()))
        facts: Any = {"operands": self.operands, "products": self.products, "view": self.view}
        return _UNSIZED.setdefault(key, Nest(sizes={}, result=self.result, **facts))


_UNSIZED: dict[object, Nest] = {}


def operand_name(number: int) -> str:
    """Return the name of an input by its number among the operands, ``input`` or ``input 1``."""
    return f"input {number}" if number else "input"
