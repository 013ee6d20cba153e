"""Ops that compute each element by itself: functions, joins of tensors of one shape, and ones with a trained number an element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from hypar.ops.base import SEVERAL, TWO, Facts, Op, Shape, Size, need
from hypar.ops.dims import CONTRACTED, KERNEL, Names, prefixed
from hypar.ops.nest import Projection, Saved, Sum
from hypar.ops.run import Run, uniform
from hypar.ops.tape import Var
from hypar.ops.windows import Window, fits


def _above(x: Var) -> Var:
    return x.map(lambda own: np.maximum(own, 0), lambda own: own > 0)


def _sigmoid(x: Var) -> Var:
    return Var((), 1.0) / ((x * -1.0).exp() + 1.0)


def _normal(x: Var) -> Var:
    """Return the cumulative distribution of the normal distribution."""
    erf = np.frompyfunc(math.erf, 1, 1)
    slope = math.sqrt(2 / math.pi)
    found = x.map(lambda own: erf(own / math.sqrt(2)), lambda own: slope * np.exp(-own * own / 2))
    return (found + 1.0) * 0.5


NEIGHBOURS, ALPHA, BETA, K = 5, 1e-4, 0.75, 1.0
"""Constants of a local response normalisation: channels as AlexNet's (NIPS 2012, section 3.3), the others PyTorch's."""


def _lrn(x: Var) -> Var:
    """Return ``x[c] d[c]^-beta`` with ``d[c] = k + alpha / n sum x[c']^2`` over the channels around c, which are read as taps."""
    taps = f"{KERNEL}channels"
    divisor = (x * x).sum([taps]) * (ALPHA / NEIGHBOURS) + K
    power = divisor.map(lambda own: own**-BETA, lambda own: -BETA * own ** (-BETA - 1))
    return x.gather(taps, np.array(NEIGHBOURS // 2), ()) * power


FUNCTIONS: dict[str, Callable[[Var], Var]] = {
    "elu": lambda x: _above(x) + (x - _above(x)).exp() - 1.0,
    "gelu": lambda x: x * _normal(x),
    "hardswish": lambda x: x * (_above(x + 3.0) - _above(x - 3.0)) * (1 / 6),
    "leaky_relu": lambda x: _above(x) * 0.99 + x * 0.01,
    "lrn": _lrn,
    "other": lambda x: x * x * 0.5,
    "relu": _above,
    "relu6": lambda x: _above(x) - _above(x - 6.0),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "tanh": lambda x: _sigmoid(x * 2.0) * 2.0 - 1.0,
}
"""Every function, of one element alone but for ``lrn``; ``other`` is computed as half the square, which needs its input too."""

OF_OUTPUT = {"relu", "sigmoid", "tanh"}
"""Those whose derivative follows from the output, which is kept in place of the input."""


class Elementwise(Op):
    """A function of each element of one input."""

    operations = 1
    function: ClassVar[str]

    def _facts(self, shape: Shape) -> Facts:  # noqa: ARG002
        output = self.function in OF_OUTPUT
        return {"saved": Saved(input=not output, output=output)}

    def _value(self, run: Run, read: Var) -> Var:  # noqa: ARG002
        return FUNCTIONS[self.function](read)


class Pointwise(Elementwise):
    """A named elementwise function; the name does not influence the plan.

    ``lrn``, local response normalisation, reads a few neighbouring channels as well; a plan treats it as
    pointwise because their communication is a thousandth of a layer's. ``other`` is any function without a name here.
    """

    function: Literal[  # type: ignore[misc]
        "elu", "gelu", "hardswish", "leaky_relu", "lrn", "other", "relu6", "sigmoid", "silu", "tanh"
    ]

    def _facts(self, shape: Shape) -> Facts:
        if self.function != "lrn":
            return super()._facts(shape)
        need(shape, ["channels"])
        saved = Saved(input=True, elements=math.prod(shape.values()))
        return {"windows": {"channels": Window(kernel=NEIGHBOURS, padding=NEIGHBOURS // 2)}, "saved": saved}


class Dropout(Op):
    """Random zeroing of elements, which a mask of bytes says; the others are enlarged by what is zeroed on average."""

    operations = 1
    probability: Annotated[float, Field(ge=0, lt=1)] = 0.5

    def _facts(self, shape: Shape) -> Facts:
        return {"saved": Saved(mask_bytes=math.prod(shape.values()))}

    def _value(self, run: Run, read: Var) -> Var:
        kept = uniform(run.nest.result.shape[1:], tuple(map(run.index, read.dims))) >= self.probability
        return read * Var(read.dims, kept / (1 - self.probability))


class Join(Op):
    """A join of tensors of one shape, element by element, with its ``operations`` for each input after the first."""

    node = "join"
    takes = SEVERAL
    operations = 1

    def _facts(self, first: Shape, *others: Shape) -> Facts:
        for shape in others:
            fits(dict(shape) == dict(first), (first, shape), "equal shapes")
        return {"operations": self.operations * len(others), "passes": self.adds}


class Add(Join):
    """``F_out = F_1 + F_2 + ...``."""

    adds = True


class Multiply(Join):
    """``F_out = F_1 F_2 ...``, element by element, as in a gated unit; each input is a factor of the others' errors."""

    saved = Saved(input=True)


class Scale(Op):
    """``F_out[n,p,q] = F_1[n,p,q] F_2[n,p]``: each element of the first input times the one of the second at its place.

    The second input has some dims of the first, of the same size or of size 1, as the gates of squeeze-and-excitation.

    Source: Hu and others, Squeeze-and-Excitation Networks (CVPR 2018), section 3.
    """

    node = "join"
    takes = TWO
    saved = Saved(input=True)
    operations = 1

    def _facts(self, one: Shape, two: Shape) -> Facts:
        within = all(dim in one and size in (1, one[dim]) for dim, size in two.items())
        fits(within, (one, two), "dims of the first input in the second, of the same size or of size 1")
        by, single = prefixed(CONTRACTED, {dim: size for dim, size in two.items() if size != one[dim]})
        return {"loops": single, "read": [one, {**two, **by}], "fraction": 0.0, "whole": frozenset(single)}


class Trained(Op):
    """A function of each element and a trained number of the dims ``over``, which all elements share along the other dims.

    Attributes:
        single: whether there is one number for all, a table of one row, where ``over`` is not given; else one for each element.
    """

    operations = 1
    single: ClassVar[bool] = False
    over: Names | None = None

    def _facts(self, shape: Shape) -> Facts:
        need(shape, self.over or ())
        single = self.single and self.over is None
        rows, over = (1, ()) if single else (vars(self).get("rows"), self.over)
        own = tuple(dim for dim in shape if over is None or dim in over)
        others = tuple(dim for dim in shape if dim not in own)
        table = {"rows": Projection(rows, others, turns=True)} if rows else {}
        trained = {"weight": {**table, **{dim: dim for dim in own}}}
        return {"trained": trained, "sums": {"weight": Sum(own, backward=True)}}


class Position(Trained):
    """``F_out = F_in + W``, with one trained number for each element of a sample, or of the dims ``over``.

    With ``rows`` the trained tensor is a table: an element adds a number of the row that its place along the other dims
    stands for, as relative positions share those of one distance, and as a table of positions that is longer than a sample.
    """

    adds = True
    rows: Size | None = None


class LayerScale(Trained):
    """``F_out = F_in W``, with one trained number for each element of the dims ``over``, as of ConvNeXt's blocks.

    Source: Touvron and others, Going deeper with image transformers (ICCV 2021), section 2.
    """

    saved = Saved(input=True)
    over: Names | None = ("channels",)


class Prelu(Trained):
    """``F_out = max(0, F_in) + W min(0, F_in)``, with one slope for each element of the dims ``over``, or one for all.

    Source: He and others, Delving Deep into Rectifiers (ICCV 2015), section 2.1.
    """

    single = True
    saved = Saved(input=True)

    def _value(self, run: Run, read: Var, slope: Var) -> Var:  # noqa: ARG002
        return _above(read) + slope * (read - _above(read))


class Rope(Op):
    """Rotation of pairs of features by an angle that grows with the position, of halves as in Llama.

    The maker of its input may not divide ``dim``, whose halves a rotation mixes.

    Source: Su and others, RoFormer (2021), section 3.2.
    """

    operations = 3
    over: str = "sequence"
    dim: str = "head_dim"

    def _facts(self, shape: Shape) -> Facts:
        need(shape, (self.over, self.dim))
        fits(shape[self.dim] % 2 == 0, f"{self.dim} of {shape[self.dim]}", "an even size")
        return {"together": frozenset({self.dim})}

    def _value(self, run: Run, read: Var) -> Var:
        """Return the rotated elements; the longest period is 10,000 times two pi, as in the source."""
        half = run.nest.sizes[self.dim] // 2
        pair = np.arange(2 * half) % half
        angle = run.index(self.over)[:, None] * 10_000.0 ** (-pair / half)
        cosine, sine = (Var((self.over, self.dim), turn(angle)) for turn in (np.cos, np.sin))
        sign = Var((self.dim,), np.where(np.arange(2 * half) < half, -1.0, 1.0))
        other = read.gather(self.dim, np.roll(np.arange(2 * half), half), (self.dim,))
        return read * cosine + other * sine * sign


def _named(function: str) -> type[Op]:
    return type(function.capitalize(), (Elementwise,), {"__module__": __name__, "function": function})


plugins: dict[str, type[Op]] = {
    **{function: _named(function) for function in ("gelu", "relu", "silu")},
    "add": Add, "dropout": Dropout, "layer_scale": LayerScale, "multiply": Multiply, "pointwise": Pointwise,
    "position": Position, "prelu": Prelu, "rope": Rope, "scale": Scale,
}  # fmt: skip
