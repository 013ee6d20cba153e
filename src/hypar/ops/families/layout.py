"""Ops without a weight that give elements at other places or one for several, inputs, and ops of which shapes alone are known."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from hypar.ops.base import SEVERAL, VOLUME, Count, Facts, Op, Shape, Size, Sliding, need
from hypar.ops.dims import KERNEL, LARGEST, Sized, prefixed
from hypar.ops.nest import Projection, Saved, Sum
from hypar.ops.run import Run
from hypar.ops.tape import Var, product
from hypar.ops.windows import Window, describe, fits

INDEX_BYTES = 8
"""Bytes of the index of a window's maximum, as in PyTorch."""


class Stated(Op):
    """A shape that the model file states: channels alone, an image, or with ``depth`` a volume; or ``shape``, dims that it names."""

    sized = ("shape",)
    channels: Size | None = None
    depth: Size | None = None
    height: Size | None = None
    width: Size | None = None
    shape: Sized | None = None

    def _refusals(self) -> dict[str, bool]:
        beside = {*VOLUME} & self.model_fields_set
        return {
            "a shape takes no channels, depth, height or width beside it": bool(self.shape and beside),
            "channels are missing; give them, or a shape": not self.shape and self.channels is None,
        }

    def _stated(self) -> Shape:
        if self.shape is not None:
            return dict(self.shape)
        given = {dim: size for dim in VOLUME[1:] if (size := getattr(self, dim)) is not None}
        allowed = "height and width, both or neither, and depth beside both"
        fits((*given,) in ((), VOLUME[2:], VOLUME[1:]), " and ".join(given), allowed)
        return {"channels": self.channels or 1, **given}


class Input(Stated):
    """The shape of one sample that a network reads, whose data stand for an input."""

    takes = (range(1), "none")

    def _facts(self) -> Facts:
        return {"made": self._stated(), "read": [self._stated()]}


class Opaque(Stated):
    """Any function of whole samples: it is cut in the batch alone, and counts no operations of its own.

    Importers write it where no other op says what a framework does; ``kind`` is the framework's name.
    """

    node = "join"
    takes = (range(1, SEVERAL[0].stop), "1 or more")
    saved = Saved(input=True)
    kind: Annotated[str, Field(min_length=1, max_length=100)]
    trained: Annotated[int, Field(ge=0, le=LARGEST)] = 0

    def _facts(self, *inputs: Shape) -> Facts:
        by, whole = prefixed("whole_", self._stated())
        trained = {"weight": {"numbers": Projection(self.trained)}} if self.trained else {}
        read = [{dim: Projection(size) for dim, size in shape.items()} for shape in inputs]
        facts = {"made": by, "loops": whole, "read": read, "trained": trained}
        return {**facts, "elements": sum(math.prod(shape.values()) for shape in inputs)}

    def _value(self, run: Run, *operands: Var) -> Var:
        """Return as a stand-in the sum of all elements of each sample, over the root of their number."""
        terms = [run.place(dim) * 0.0 for dim in run.nest.result.dims[1:]]
        for read, own in zip(operands, run.nest.inputs, strict=True):
            terms.append(read.sum(read.dims[1:]) * (1 / math.sqrt(math.prod(own.shape[1:]))))
        return sum(terms, Var((), 0.0))


class Flatten(Op):
    """A view of all dims of a sample as channels: a vector, which its input is in another form."""

    def _facts(self, shape: Shape) -> Facts:
        read = [{dim: Projection(size) for dim, size in shape.items()}]
        return {"made": {"channels": math.prod(shape.values())}, "read": read, "view": True}


class Concat(Op):
    """A join along ``channels``. With channels cut, a device holds its shard of every input's channels."""

    node = "join"
    takes = SEVERAL
    adds = True

    def _facts(self, *inputs: Shape) -> Facts:
        for shape in inputs[1:]:
            alike = dict(shape) | {"channels": 0} == dict(inputs[0]) | {"channels": 0}
            fits(alike, (inputs[0], shape), "equal but for channels")
        sizes = [shape["channels"] for shape in inputs]
        made = {**inputs[0], "channels": sum(sizes)}
        read = [
            {**shape, "channels": Projection(size, ("channels",), Window(kernel=1, padding=sum(sizes[:at])))}
            for at, (shape, size) in enumerate(zip(inputs, sizes, strict=True))
        ]
        return {"made": made, "read": read, "elements": math.prod(made.values()), "passes": True}


class Token(Op):
    """The positions of ``over``, and before them one that is trained, as the class token of a vision transformer."""

    adds = True
    over: str = "sequence"

    def _facts(self, shape: Shape) -> Facts:
        need(shape, [self.over])
        own = {dim: size for dim, size in shape.items() if dim != self.over}
        return {
            "windows": {self.over: Window(kernel=1, padding=1)},
            "places": {self.over: shape[self.over] + 1},
            "trained": {"weight": own},
            "sums": {"weight": Sum(tuple(own), backward=True)},
        }

    def _value(self, run: Run, read: Var, token: Var) -> Var:
        first = Var((self.over,), run.index(self.over) == 0)
        return read.sum([f"{KERNEL}{self.over}"]) + token * first


class Select(Op):
    """The position ``index`` of the dim ``over``, which is left with one position, as that of the class token."""

    over: str = "sequence"
    index: Count = 0

    def _facts(self, shape: Shape) -> Facts:
        need(shape, [self.over])
        size = shape[self.over]
        fits(self.index < size, f"index {self.index} of {describe(shape)}", f"below {size}")
        return {"windows": {self.over: Window(kernel=1, padding=-self.index)}, "places": {self.over: 1}}


class Pool(Sliding):
    """Maximum or average of a sliding window, or of the whole image with ``window: global``.

    The stride defaults to the kernel. ``rounding: up`` keeps a last window that extends past the edge, as Caffe does.
    """

    node: ClassVar[Literal["", "pool"]] = "pool"
    mode: Literal["max", "average"]
    window: Literal["sliding", "global"] = "sliding"
    kernel: tuple[Size, ...] | None = None
    stride: tuple[Size, ...] | None = None
    padding: tuple[Count, ...] = (0, 0)
    rounding: Literal["down", "up"] = "down"

    def _refusals(self) -> dict[str, bool]:
        own, alone = {"mode", "window"}, self.window == "global"
        *others, last = (name for name in type(self).model_fields if name not in own)
        return {
            f"a global window takes no {', '.join(others)} or {last}": alone and self.model_fields_set > own,
            "kernel is missing; give one, or window: global": not alone and self.kernel is None,
        }

    def _facts(self, shape: Shape) -> Facts:
        """Return that it keeps its input, as PyTorch does, and indices, which alone its backward phase on images reads."""
        kernels = self.kernel or tuple(shape[dim] for dim in self.form[1:])
        for kernel, padding in zip(kernels, self.padding, strict=True):
            fits(2 * padding <= kernel, f"padding {padding} for kernel {kernel}", "at most half of it")
        windows = self.along(kernel=kernels, stride=self.stride or kernels, padding=self.padding)
        kept = self.mode == "max" or self.window == "sliding"
        up = self.rounding == "up"
        places = {dim: own.output_size(shape[dim], round_up=up) for dim, own in windows.items()}
        indices = INDEX_BYTES * (self.mode == "max") * math.prod([shape["channels"], *places.values()])
        return {
            "windows": windows,
            "places": places,
            "reduce": "mean" if self.mode == "average" else "max",
            "saved": Saved(input=kept, mask_bytes=indices),
            "operations": math.prod(own.kernel for own in windows.values()),
            "more": (0, -math.prod(shape.values()) * (kept and "depth" not in shape)),
        }

    def _value(self, run: Run, read: Var) -> Var:
        own = run.nest.inputs[0]
        taps = [f"{KERNEL}{dim}" for dim in own.windows]
        if self.mode == "max":
            return read.max(taps)
        found = read.sum(taps)
        for dim, window in own.windows.items():
            first = run.index(dim) * window.stride - window.padding
            counted = np.minimum(first + window.kernel, own.axes[dim].size + window.padding) - first
            found = found * Var((dim,), 1 / counted)
        return found


class Pool3d(Pool):
    """A pool of a volume, which rounds down."""

    node = ""
    form = VOLUME
    padding: tuple[Count, ...] = (0, 0, 0)
    rounding: ClassVar[str] = "down"  # type: ignore[misc]


class Upsample(Sliding):
    """An image ``scale`` times as high and wide: each element repeated, or bilinear between the nearest four.

    Bilinear is PyTorch's with ``align_corners=False``: output o lies at ``(o + 1/2) / scale - 1/2`` of the input, so that
    an input reaches the ``2 scale`` outputs around it, less the one in which an odd scale meets the next input exactly.
    """

    node = "pool"
    transposed = True
    mode: Literal["nearest", "bilinear"]
    scale: tuple[Size, ...]

    def _facts(self, shape: Shape) -> Facts:  # noqa: ARG002
        """Return four products and three sums for each output of a bilinear interpolation; repeating takes none."""
        wide = self.mode == "bilinear"
        kernels = [size + wide * (size - size % 2) for size in self.scale]
        paddings = [wide * (size // 2) for size in self.scale]
        windows = self.along(kernel=kernels, stride=self.scale, padding=paddings)
        return {"windows": windows, "operations": (2 * 4 - 1) * wide}

    def _value(self, run: Run, *operands: Var) -> Var:
        """Return the elements weighed by one less the distance in input elements; the weights of an output add up to one."""
        for dim, window in run.nest.inputs[0].windows.items():
            # The opposite window of an input is centred on it, and so falls off to both sides from its middle tap.
            own, kernel = run.nest.inputs[0].axes[dim], window.kernel
            distance = np.abs(np.arange(kernel) - (kernel - 1) / 2) / window.stride
            weights = np.where(window.taps(own.size, run.index(dim)) < 0, 0.0, 1 - distance)
            operands += (Var(own.dims, weights / weights.sum(axis=1, keepdims=True)),)
        return product(operands, run.nest.result.dims)


class Crop(Sliding):
    """The image without ``margin`` rows at top and bottom, and without as many columns at left and right."""

    node = "pool"
    margin: tuple[Count, ...]

    def _facts(self, shape: Shape) -> Facts:
        for dim, margin in zip(self.form[1:], self.margin, strict=True):
            found = f"margin {margin} at both ends of {dim} {shape[dim]}"
            fits(2 * margin < shape[dim], found, "less than half of it")
        windows = self.along(kernel=[1] * len(self.margin), padding=[-margin for margin in self.margin])
        return {"windows": windows}


plugins: dict[str, type[Op]] = {
    "concat": Concat, "crop": Crop, "flatten": Flatten, "input": Input, "opaque": Opaque, "pool": Pool, "pool3d": Pool3d,
    "select": Select, "token": Token, "upsample": Upsample,
}  # fmt: skip
