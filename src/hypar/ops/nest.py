"""What an op is: a loop nest over named dims, with how the loops index each tensor, and all that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hypar.ops.dims import CUTTABLE, KERNEL, atom_of, in_order
from hypar.ops.operands import Axes, Operand, Projection, Saved, Sum, Traffic

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hypar.ops.windows import Window


class Phase(NamedTuple):
    """One contraction of a layer's training, of operands to a result."""

    operands: tuple[str, ...]
    result: str


PHASES = {
    "forward": Phase(("input", "weight"), "output"),
    "backward": Phase(("output", "weight"), "input"),
    "gradient": Phase(("input", "output"), "weight"),
}
"""The three contractions of a layer with a weight."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Nest:
    """An op on a mini-batch. Nests are compared by identity, so that results can be cached by nest.

    Forward ``F_out = F_in . W``, backward ``E_in = E_out . W'``, gradient ``dW = F_in' . E_out``. A loop dim is one dim of a
    tensor, under the tensor's own name for it: the ``in_channels`` of the loops are the ``channels`` of F_in.

    Attributes:
        sizes: size of each loop dim; height and width are those of the output. Whole numbers, except that an uneven split
            into fractional shares may give its dim a real size.
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
        untrained: numbers that it has besides its trained ones, such as running means.
        zeros: fraction of zeros in ``input`` and ``output``, where the network gives it.
        behind: what the ops behind the layer read and write, an element of its output.
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
    untrained: int = 0
    zeros: Mapping[str, float] = field(default_factory=dict)
    behind: tuple[Traffic, ...] = ()
    input_sizes: Mapping[str, Any] = field(default_factory=dict)
    input_elements: Any = 0

    @classmethod
    def of(
        cls,
        batch: int,
        loops: Mapping[str, int],
        inputs: Sequence[Axes],
        output: Axes,
        *,
        weight: Collection[str] = (),
        trained: Mapping[str, Axes] | None = None,
        elements: int = 0,
        **facts: Any,
    ) -> Nest:
        """Return the nest of an op, of which facts of memory and operations are those of one sample.

        Args:
            batch: samples in a mini-batch, the first loop and the first axis of inputs and output.
            loops: the other loop dims with their sizes.
            inputs: the axes of a sample of each input.
            output: those of the output.
            weight: the loop dims of a weight that is contracted.
            trained: the axes of each other trained tensor.
            elements: those that a sample of the input counts as, if not its own.
            facts: other attributes.
        """
        sizes = {"batch": batch, **loops}
        samples = {operand_name(at): {"batch": batch, **axes} for at, axes in enumerate(inputs)}
        operands = {name: Operand.of(axes, sizes) for name, axes in samples.items()}
        if weight:
            operands["weight"] = Operand.of({dim: dim for dim in weight}, sizes, "weight")
        operands |= {name: Operand.of(axes, sizes, "parameter") for name, axes in (trained or {}).items()}
        read, whole = operands["input"], facts.get("whole", ())
        slid = [dim for dim in ("height", "width") if dim in read.windows and dim not in whole]
        saved, (forward, backward) = facts.pop("saved", Saved()), facts.pop("more", (0, 0))
        return cls(
            sizes=sizes,
            operands=operands,
            result=Operand.of({"batch": batch, **output}, sizes),
            input_elements=batch * elements or math.prod(read.shape),
            input_sizes={dim: read.axes[dim].size for dim in slid if read.axes[dim].dims[0] == dim},
            saved=saved._replace(elements=batch * saved.elements, mask_bytes=batch * saved.mask_bytes),
            operations=batch * facts.pop("operations", 0),
            more=(batch * forward, batch * backward),
            **facts,
        )

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
    def _names(self) -> Mapping[str, Mapping[str, str]]:
        """The names of each tensor but the weight; all inputs of a join that is no product are alike."""
        read = enumerate(self.inputs if self.products else self.inputs[:1])
        return {**{operand_name(number): own.names for number, own in read}, "output": self.result.names}

    @property
    def input(self) -> Mapping[str, str]:
        """The loop dims that F_in and E_in carry, with the tensor's name for each."""
        return self._names["input"]

    @cached_property
    def weight(self) -> tuple[str, ...]:
        """The loop dims that W and dW carry; none without a weight that is contracted."""
        return next((own.dims for own in self.operands.values() if own.role == "weight"), ())

    @property
    def output(self) -> Mapping[str, str]:
        """The loop dims that F_out and E_out carry, with the tensor's name for each."""
        return self._names["output"]

    @property
    def others(self) -> tuple[Mapping[str, str], ...]:
        """The loop dims of the further inputs of a product of activations, with the tensor's name for each."""
        return tuple(self._names.values())[1:-1]

    @cached_property
    def windows(self) -> Mapping[str, Window]:
        """The windows along the dims of an image that a choice may divide."""
        return {dim: own for dim, own in self.inputs[0].windows.items() if dim in self.input_sizes}

    def names(self, tensor: str) -> Mapping[str, str]:
        """Return the tensor's name for each loop dim that it carries; none for a weight."""
        return self._names.get(tensor, {})

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The names of the tensors: ``input``, ``weight``, ``output``, and ``input 1`` and so on for further inputs."""
        return "input", "weight", "output", *list(self._names)[1:-1]

    @cached_property
    def _carried(self) -> Mapping[str, frozenset[str]]:
        return {
            name: frozenset(self.weight if name == "weight" else self.names(name)) for name in self.tensors
        }

    def dims(self, tensor: str) -> frozenset[str]:
        """Return the loop dims of a tensor: ``input``, ``weight``, ``output`` or ``input 1``."""
        return self._carried[tensor]

    def elements(self, tensor: str) -> int:
        """Return the elements of the whole tensor; 0 for the weight of an op without one."""
        if tensor == "input":
            return self.input_elements  # type: ignore[no-any-return]  # of real sizes a real number
        dims = self.weight if tensor == "weight" else self.names(tensor)
        return math.prod([self.sizes[dim] for dim in dims]) if dims else 0

    # What a choice may divide

    @cached_property
    def cuttable(self) -> tuple[str, ...]:
        """The dims that a choice may divide, in their order in plan files."""
        return tuple(
            in_order(dim for dim in self.sizes if not dim.startswith(KERNEL) and dim not in self.whole)
        )

    @cached_property
    def extra(self) -> tuple[str, ...]:
        """The dims besides those of convolutions that the tensors carry, in their order on devices."""
        dims = frozenset().union(*self._carried.values())
        return tuple(dim for dim in in_order(dims) if not (dim in CUTTABLE or dim.startswith(KERNEL)))

    @cached_property
    def counted(self) -> tuple[str, ...]:
        """The dims for which degrees are counted: those of convolutions, and the layer's own."""
        return (*CUTTABLE, *self.extra)

    @property
    def multiplies(self) -> bool:
        """Whether tensors are multiplied: by a weight, by each other, or by a selection of elements."""
        return bool(self.weight or self.others or self.products)

    @cached_property
    def reduced(self) -> frozenset[str]:
        """The axes of its input that a pool reduces to one element, so that no op behind it finds them divided."""
        pools = self.reduce != "sum"
        return frozenset(axis for axis in self.inputs[0].windows if pools and self.sizes[axis] == 1)

    @property
    def biased(self) -> bool:
        """Whether a bias is added to its product."""
        return bool(self.weight) and "bias" in self.operands

    @property
    def concatenates(self) -> bool:
        """Whether its output is its inputs' channels one behind the other."""
        return any(axis.first for own in self.inputs for axis in own.axes.values())

    # Operations and memory

    @cached_property
    def steps(self) -> Mapping[str, Any]:
        """The loop counts of the contraction: ``sizes``, but for inputs instead of outputs along transposed windows."""
        over = {
            dim: window.steps(self.input_sizes[dim], self.sizes[dim]) for dim, window in self.windows.items()
        }
        return {**self.sizes, **over} if over else self.sizes

    @cached_property
    def macs(self) -> int:
        """Number of multiply-accumulates in the forward phase; 0 where nothing is multiplied."""
        if self.products:
            return int(self.fraction * self.products_among({}))
        return math.prod(self.steps.values()) if self.multiplies else 0

    def macs_among(self, degrees: Mapping[str, Any]) -> Any:
        """Return the multiply-accumulates of each of the devices that divide some dims alike."""
        if self.products:
            return self.fraction * self.products_among(degrees)
        return self.macs / math.prod(degrees.get(dim, 1) for dim in self.sizes)

    def products_among(self, degrees: Mapping[str, Any]) -> Any:
        """Return the multiply-accumulates of a chain's products on each of the devices that divide some dims."""
        if not degrees:
            return sum(math.prod(self.sizes[dim] for dim in dims) for dims in self.products)
        return sum(math.prod(self.sizes[dim] / degrees.get(dim, 1) for dim in dims) for dims in self.products)

    def flop(self, phase: str) -> int:
        """Return the floating-point operations of a phase: ``2 n - 1`` for every result element that contracts n terms.

        A contraction of less than one term, which a fractional share may leave, needs no additions. The outputs of
        transposed windows contract fewer terms at a border, so their products are counted together.

        Source: AccPar (HPCA 2020), the operation counts of its computation cost.
        """
        return self._flop[phase]

    @cached_property
    def _flop(self) -> Mapping[str, int]:
        macs, steps = self.macs, self.steps
        if not macs or self.products:
            return dict.fromkeys(PHASES, 2 * macs)
        found = {}
        for phase, (_, result) in PHASES.items():
            terms = math.prod(size for dim, size in steps.items() if dim not in self.dims(result))
            found[phase] = self.elements(result) * (terms + max(0, terms - 1))
        if steps != self.sizes:
            found["forward"] = macs + max(0, macs - self.elements("output"))
        return found

    @cached_property
    def step_flop(self) -> int:
        """The floating-point operations of the three phases."""
        return sum(self.flop(phase) for phase in PHASES)

    # The same op with other sizes, or as one of its tensors sees it

    def read_at(self, operand: int) -> Nest:
        """Return the nest as a tensor's transfer to one of its inputs sees it: with that one as ``input``.

        The input that was first changes places with it, so that every dim keeps the tensors that carry it.
        """
        return self._read_at[operand] if operand else self

    @cached_property
    def _read_at(self) -> tuple[Nest, ...]:
        first, found = self.inputs[0], [self]
        for name in self.tensors[3:]:
            operands = {**self.operands, "input": self.operands[name], name: first}
            found.append(replace(self, operands=operands, input_elements=self.elements(name)))
        return tuple(found)

    @cached_property
    def of_weight(self) -> Nest:
        """The nest as the transfers of its weight see it: with the weight as F_in and as F_out, without windows."""
        axes = {atom_of(dim): Projection(self.sizes[dim], (dim,)) for dim in self.weight}
        operands = {**self.operands, "input": Operand(axes)}
        size = self.elements("weight")
        return replace(self, operands=operands, result=Operand(axes), input_elements=size, input_sizes={})

    @property
    def content(self) -> object:
        """A key that nests of equal fields share, as joins of two and of three inputs do."""
        chain = (self.products, self.fraction, self.whole, self.behind, self.input_elements)
        mappings = (self.sizes, self.windows, self.input_sizes, self.zeros)
        return self.unsized(), chain, *[tuple(mapping.items()) for mapping in mappings]

    def unsized(self) -> Nest:
        """Return the nest of the same dims without sizes; nests with equal dims share one object."""
        return self._unsized

    @cached_property
    def _unsized(self) -> Nest:
        key = (self.weight, *(tuple(own.items()) for own in (self.input, self.output, *self.others)))
        plain = Nest(sizes={}, operands=self.operands, result=self.result, products=self.products)
        return _UNSIZED.setdefault(key, plain)


_UNSIZED: dict[object, Nest] = {}


def operand_name(number: int) -> str:
    """Return the name of an input by its number among the operands, ``input`` or ``input 1``."""
    return f"input {number}" if number else "input"
