"""Ops that read windows without a weight, channel by channel: pools, interpolations, crops and single positions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import field_validator, model_validator

from hypar.ops.base import (
    IMAGE,
    VOLUME,
    Count,
    Node,
    Op,
    Places,
    Shape,
    as_places,
    describe,
    elements_of,
    one_input,
    placed_input,
    slid,
)  # fmt: skip
from hypar.ops.nest import Nest
from hypar.ops.operands import Saved
from hypar.ops.tape import Var
from hypar.ops.windows import ShapeError, TransposedWindow, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.ops.run import Run

INDEX_BYTES = 8
"""Bytes of the index of a window's maximum, as in PyTorch."""


class Resampling(Op):
    """An op that reads an image or a volume in windows along some dims and gives another of other sizes."""

    node: ClassVar[Node] = "pool"
    form: ClassVar[tuple[str, ...]] = IMAGE

    @field_validator("kernel", "stride", "padding", "scale", "margin", mode="before", check_fields=False)
    @classmethod
    def _places(cls, value: Any) -> Any:
        """Read one number as that of every dim of a place."""
        return value if value is None else as_places(value, cls.form[1:])

    def windows(self, shape: Shape) -> Mapping[str, Window]:
        """Return the window along each dim that is resampled; raises ``ShapeError`` for one that does not fit."""
        raise NotImplementedError

    def facts(self, shape: Shape, made: Shape) -> dict[str, Any]:  # noqa: ARG002
        """Return what is special about its nest, of the shapes of its input and of its output."""
        return {}

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return ``F_out[n,c,h,w]`` of ``F_in[n,c,h',w']`` for the h' and w' that the windows read."""
        shape = placed_input(inputs, self.form)
        windows, up = self.windows(shape), getattr(self, "rounding", "down") == "up"
        places = {dim: window.output_size(shape[dim], round_up=up) for dim, window in windows.items()}
        made = {**shape, **places}
        read = {**shape, **slid(shape, windows)}
        return Nest.of(batch, made, [read], made, **self.facts(shape, made))

    def value(self, run: Run) -> Var:
        """Return the sum of what each window reads."""
        return run.input().sum(_taps(run))


class Pool(Resampling):
    """Maximum or average of a sliding window, or of the whole image with ``window: global``.

    The stride defaults to the kernel. ``rounding: up`` keeps a last window that extends past the edge, as Caffe does.
    """

    mode: Literal["max", "average"]
    window: Literal["sliding", "global"] = "sliding"
    kernel: Places | None = None
    stride: Places | None = None
    padding: tuple[Count, ...] = (0, 0)
    rounding: Literal["down", "up"] = "down"

    @model_validator(mode="after")
    def _kernel_or_global(self) -> Self:
        """Require a kernel for a sliding window, and no other field for a global one."""
        if self.window == "global" and self.model_fields_set - {"mode", "window"}:
            others = [name for name in type(self).model_fields if name not in {"mode", "window"}]
            raise ValueError(f"a global window takes no {', '.join(others[:-1])} or {others[-1]}")
        if self.window == "sliding" and self.kernel is None:
            raise ValueError("kernel is missing; give one, or window: global")
        return self

    def windows(self, shape: Shape) -> Mapping[str, Window]:
        """Return the window along each dim of a place; a global one is as large as the input."""
        kernels = self.kernel or tuple(shape[dim] for dim in self.form[1:])
        for kernel, padding in zip(kernels, self.padding, strict=True):
            if 2 * padding > kernel:
                raise ShapeError(f"found padding {padding} for kernel {kernel}; allowed: at most half of it")
        fields = zip(self.form[1:], kernels, self.stride or kernels, self.padding, strict=True)
        return {
            dim: Window(kernel=kernel, stride=stride, padding=padding)
            for dim, kernel, stride, padding in fields
        }

    def facts(self, shape: Shape, made: Shape) -> dict[str, Any]:
        """Return that it keeps its input, as PyTorch does, and the indices of maxima; a global mean keeps nothing.

        It takes one operation for every element that a window reads. The backward phase of a pool of images reads indices alone
        of what is kept.
        """
        taps = math.prod(window.kernel for window in self.windows(shape).values())
        kept = self.mode == "max" or self.window == "sliding"
        return {
            "reduce": "mean" if self.mode == "average" else "max",
            "saved": Saved(input=kept, mask_bytes=INDEX_BYTES * elements_of(made) * (self.mode == "max")),
            "operations": elements_of(made) * taps,
            "more": (0, -elements_of(shape) * (kept and self.form == IMAGE)),
        }

    def value(self, run: Run) -> Var:
        """Return the largest element of each window; or its mean, padding counted as zeros but for what hangs over it."""
        read = run.input()
        if self.mode == "max":
            return read.max(_taps(run))
        found = read.sum(_taps(run))
        for dim, own in run.nest.inputs[0].axes.items():
            if own.window is not None:
                first = run.index(dim) * own.window.stride - own.window.padding
                counted = np.minimum(first + own.window.kernel, own.size + own.window.padding) - first
                found = found * Var((dim,), 1 / counted)
        return found


class Pool3d(Pool):
    """Maximum or average of a sliding window, or of the whole volume with ``window: global``.

    The stride defaults to the kernel.
    """

    node: ClassVar[Node] = ""
    form: ClassVar[tuple[str, ...]] = VOLUME
    padding: tuple[Count, ...] = (0, 0, 0)
    rounding: ClassVar[str] = "down"  # type: ignore[misc]


class Upsample(Resampling):
    """An image ``scale`` times as high and wide: each element repeated, or bilinear between the nearest four.

    Bilinear is PyTorch's with ``align_corners=False``: output o lies at ``(o + 1/2) / scale - 1/2`` of the input, so that
    an input reaches the ``2 scale`` outputs around it, less the one in which an odd scale meets the next input exactly.
    """

    mode: Literal["nearest", "bilinear"]
    scale: Places

    def windows(self, shape: Shape) -> Mapping[str, Window]:  # noqa: ARG002
        """Return the transposed window along each spatial dim."""
        return {dim: self._window(scale) for dim, scale in zip(self.form[1:], self.scale, strict=True)}

    def _window(self, scale: int) -> TransposedWindow:
        if self.mode == "nearest":
            return TransposedWindow(kernel=scale, stride=scale)
        return TransposedWindow(kernel=2 * scale - scale % 2, stride=scale, padding=scale // 2)

    def facts(self, shape: Shape, made: Shape) -> dict[str, Any]:  # noqa: ARG002
        """Return four products and three sums for each output of a bilinear interpolation; repeating takes none."""
        return {"operations": (2 * 4 - 1) * elements_of(made) * (self.mode == "bilinear")}

    def value(self, run: Run) -> Var:
        """Return the elements weighed by one less the distance in input elements; the weights of an output add up to one."""
        found = run.input()
        for dim, own in run.nest.inputs[0].axes.items():
            if own.window is not None:
                # The opposite window of an input is centred on it, and so falls off to both sides from its middle tap.
                kernel, place = own.window.kernel, run.index(dim)
                distance = np.abs(np.arange(kernel) - (kernel - 1) / 2) / own.window.stride
                weights = np.where(own.window.taps(own.size, place) < 0, 0.0, 1 - distance)
                found = found * Var(own.dims, weights / weights.sum(axis=1, keepdims=True))
        return found.sum(_taps(run))


class Crop(Resampling):
    """The image without ``margin`` rows at top and bottom, and without as many columns at left and right."""

    margin: tuple[Count, ...]

    def windows(self, shape: Shape) -> Mapping[str, Window]:
        """Return a window of one element, padded by less than nothing, along each spatial dim."""
        margins = dict(zip(self.form[1:], self.margin, strict=True))
        for dim, margin in margins.items():
            if 2 * margin >= shape[dim]:
                raise ShapeError(
                    f"found margin {margin} at both ends of {dim} {shape[dim]}; allowed: less than half of it"
                )
        return {dim: Window(kernel=1, padding=-margin) for dim, margin in margins.items()}


class Select(Op):
    """The position ``index`` of the dim ``over``, which is left with one position, as that of the class token."""

    over: str = "sequence"
    index: Count = 0

    def nest(self, batch: int, inputs: tuple[Shape, ...]) -> Nest:
        """Return that it reads one position."""
        shape = one_input(inputs, self.over)
        if self.index >= shape[self.over]:
            raise ShapeError(
                f"found index {self.index} of {describe(shape)}; allowed: below {shape[self.over]}"
            )
        read = slid(shape, {self.over: Window(kernel=1, padding=-self.index)})
        made = {**shape, self.over: 1}
        return Nest.of(batch, made, [{**shape, **read}], made)

    def value(self, run: Run) -> Var:
        """Return the position."""
        return run.input().sum(_taps(run))


def _taps(run: Run) -> list[str]:
    """Return the dims of the taps of its windows."""
    return [own.dims[1] for own in run.nest.inputs[0].axes.values() if own.window is not None]


plugins: dict[str, type[Op]] = {
    "crop": Crop, "pool": Pool, "pool3d": Pool3d, "select": Select, "upsample": Upsample,
}  # fmt: skip
