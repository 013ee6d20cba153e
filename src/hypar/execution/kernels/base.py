"""The base of all kernels: what a device computes of a layer, forward and backward.

A kernel computes a *piece* of a layer: the index sets of its op dims that a device works on. Operands and results are
float64 arrays of the whole size of their tensor with NaN wherever a device holds nothing, so that a missing element
shows as NaN in the result. Kernels move nothing; whoever runs them adds up terms and sums over devices between the calls:

    sums       statistics of the input that are added over devices before ``forward``: ``batch_norm``, ``softmax``
    forward    output elements; of a weighted op the terms over the piece's ``in_channels``, without the bias; of an average
               pool the terms over the piece's ``input_height`` and ``input_width``, where it has them
    finish     the bias, on the added terms
    back_sums  statistics of the error that are added over devices before ``backward``
    backward   terms of the inputs' errors and of the parameters' gradients, but of a bias that ``finish`` adds
    bias       terms of the gradient of that bias

Arrays:
    activations ``[batch, channels]`` or ``[batch, channels, height, width]``; weights of convolutions ``[groups,
    in_channels, out_channels, kernel_height, kernel_width]`` with channels within a group, also of one group; weights of
    ``linear`` ``[in_channels, out_channels]``; biases, and weight and bias of ``batch_norm``, ``[channels]``; sums ``[..]``
    over the dims of the input that the op's ``statistics_over`` leaves.

Pieces:
    sorted index arrays by op dim. Weighted ops: batch, groups (if there are several), in_channels and out_channels (within a
    group), height and width of the output. Others: the dims of the output. A layer ``input`` reads the network's data
    as its one input. An average pool may have ``input_height`` and ``input_width`` besides: the input rows and columns
    whose terms this device adds up, where an image is cut below a window that covers several devices.

NaN:
    results hold NaN outside the piece. An input's error covers exactly the elements that the piece reads (``reads``):
    elements that no piece reads get no error from anybody, and whoever adds errors up takes it as zero. NaN in an
    element that the piece reads makes NaN in the result, not always only in the elements that read it.

Where ops leave a choice kernels do as PyTorch does by default: padding is zero, of a max pool less than everything, and counts
in an average's divisor, but for what hangs over the padding by ``rounding: up``; the first of equal maxima gets the error.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hypar.execution.boxes import Array, Box, Indices, Mask, Piece, mask, put, take
from hypar.execution.taps import Reading, gather, matrix, reading, scatter

if TYPE_CHECKING:
    from hypar.network.layer import Layer
    from hypar.network.windows import Window

EPSILON = 1e-5
"""Added to every variance, as PyTorch does by default."""

Inputs = tuple[Array, ...]
Parameters = Mapping[str, Array]
Sums = Mapping[str, Array]


class Gradients(NamedTuple):
    """What the backward phase of a piece gives.

    Attributes:
        inputs: terms of each input's error.
        parameters: terms of each parameter's gradient by its name.
    """

    inputs: Inputs
    parameters: dict[str, Array]


class Kernel(ABC):
    """What a device computes of a layer of one op."""

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return initial values of the trained parameters, such that activations stay near 1."""
        return {}

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return tuple(piece[dim] for dim in ("batch", *layer.shape))

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of each input that a piece reads; by default that of the output."""
        return (self.output(layer, piece),)

    def reads(self, layer: Layer, batch: int, piece: Piece) -> tuple[Mask, ...]:
        """Return which elements of each input a piece reads."""
        shapes = layer.input_shapes or (layer.shape,)
        boxes = self.boxes(layer, piece)
        return tuple(mask((batch, *shape.values()), box) for shape, box in zip(shapes, boxes, strict=True))

    def sums(self, layer: Layer, inputs: Inputs, piece: Piece) -> dict[str, Array]:
        """Return the piece's terms of the statistics that ``forward`` needs of all devices."""
        return {}

    @abstractmethod
    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the piece's output, or its terms."""

    def finish(self, value: Array, parameters: Parameters) -> Array:
        """Return the output with all that follows the addition of terms, on whichever elements a device has."""
        return value

    def bias(self, error: Array, box: Box, parameters: Parameters) -> dict[str, Array]:
        """Return the terms of the gradients of what ``finish`` adds, over a box of the output's error."""
        return {}

    def back_sums(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the piece's terms of the statistics that ``backward`` needs; those named as a parameter are its gradient."""
        return {}

    @abstractmethod
    def backward(
        self,
        layer: Layer,
        inputs: Inputs,
        parameters: Parameters,
        error: Array,
        piece: Piece,
        sums: Sums,
        back_sums: Sums,
    ) -> Gradients:
        """Return the piece's terms of the inputs' errors and of the parameters' gradients."""


def output_shape(layer: Layer, inputs: Inputs) -> tuple[int, ...]:
    """Return the whole output's shape."""
    return len(inputs[0]), *layer.shape.values()


def letters(layer: Layer, tensor: str) -> str:
    """Return a letter for each dim of a tensor in the order of its array, as ``np.einsum`` takes them."""
    known = {dim: chr(ord("a") + number) for number, dim in enumerate(layer.einsum(1).sizes)}
    return "".join(known[dim] for dim in _dims(layer, tensor))


def boxed(layer: Layer, tensor: str, piece: Piece) -> Box:
    """Return the box of a tensor that a piece has."""
    return tuple(piece[dim] for dim in _dims(layer, tensor))


def _dims(layer: Layer, tensor: str) -> tuple[str, ...]:
    """Return the op dims of a tensor, in the order of its array."""
    einsum = layer.einsum(1)
    if tensor == "weight":
        return einsum.weight
    shape = layer.shape if tensor == "output" else layer.input_shapes[int(tensor.removeprefix("input") or 0)]
    own = {axis: dim for dim, axis in einsum.names(tensor).items()}
    return tuple(own[axis] for axis in ("batch", *shape))


class Elementwise(Kernel):
    """An op whose outputs are functions of one input element each."""

    @abstractmethod
    def value(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's value.

        Args:
            layer: the layer.
            local: elements of the input.
            box: their place in it.
        """

    @abstractmethod
    def slope(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's derivative, NaN where the input is."""

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the values."""
        box = self.output(layer, piece)
        return put(inputs[0].shape, box, self.value(layer, take(inputs[0], box), box))

    def backward(
        self,
        layer: Layer,
        inputs: Inputs,
        parameters: Parameters,
        error: Array,
        piece: Piece,
        sums: Sums,
        back_sums: Sums,
    ) -> Gradients:
        """Return the error times the derivative."""
        box = self.output(layer, piece)
        value = take(error, box) * self.slope(layer, take(inputs[0], box), box)
        return Gradients((put(inputs[0].shape, box, value),), {})


class Function(NamedTuple):
    """An elementwise function and its derivative."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _normal(x: Array) -> Array:
    """Return the cumulative distribution of the normal distribution."""
    return (1 + np.asarray(_erf(x / math.sqrt(2)), dtype=np.float64)) / 2


_erf = np.frompyfunc(math.erf, 1, 1)

FUNCTIONS = {
    "elu": Function(lambda x: np.where(x > 0, x, np.expm1(x)), lambda x: np.exp(np.minimum(x, 0))),
    "gelu": Function(
        lambda x: x * _normal(x), lambda x: _normal(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    ),
    "hardswish": Function(
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        lambda x: np.where(x <= -3, 0, np.where(x < 3, (2 * x + 3) / 6, 1)),
    ),
    "leaky_relu": Function(lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1, 0.01)),
    "other": Function(lambda x: x * x / 2, lambda x: x),
    "relu6": Function(lambda x: np.clip(x, 0, 6), lambda x: np.where((x > 0) & (x < 6), 1.0, 0.0)),
    "sigmoid": Function(_sigmoid, lambda x: _sigmoid(x) * _sigmoid(-x)),
    "silu": Function(lambda x: x * _sigmoid(x), lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x))),
    "tanh": Function(np.tanh, lambda x: 1 - np.tanh(x) ** 2),
}
"""Every function that reads one element alone; ``other`` is computed as half the square, which needs its input too."""


class Named(Elementwise):
    """An elementwise function."""

    def __init__(self, function: Function) -> None:
        """Store the function."""
        self.function = function

    def value(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's value."""
        return self.function.value(local)

    def slope(self, layer: Layer, local: Array, box: Box) -> Array:
        """Return the function's derivative."""
        return np.where(np.isnan(local), np.nan, self.function.slope(local))


class Weighted(Kernel):
    """A kernel of an op with a weight and perhaps a bias for every output channel."""

    @abstractmethod
    def weight_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return the weight's shape."""

    @abstractmethod
    def fan_in(self, layer: Layer) -> float:
        """Return the number of products that an output element adds up."""

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return a normal weight that keeps the variance of its input, and a small bias."""
        scale = 1 / math.sqrt(self.fan_in(layer))
        values = {"weight": random.normal(scale=scale, size=self.weight_shape(layer))}
        if "bias" in layer.op.parameters(layer.input_shapes):
            values["bias"] = random.normal(scale=0.1, size=self.bias_shape(layer))
        return values

    def bias_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return the bias's shape: a number for each channel."""
        return (layer.shape["channels"],)

    def finish(self, value: Array, parameters: Parameters) -> Array:
        """Return the sum of all terms with the bias added."""
        if "bias" not in parameters:
            return value
        return value + parameters["bias"].reshape(-1, *[1] * (value.ndim - 2))

    def bias(self, error: Array, box: Box, parameters: Parameters) -> dict[str, Array]:
        """Return the sum of the error over all but the channels."""
        if "bias" not in parameters:
            return {}
        local = take(error, box)
        over = tuple(axis for axis in range(local.ndim) if axis != 1)
        return {"bias": put(parameters["bias"].shape, (box[1],), local.sum(over))}


class _Part(NamedTuple):
    """A piece of a convolution: the channels of a group, and what its outputs read along height and width."""

    groups: Indices
    weight: Box
    rows: Reading
    columns: Reading
    input: Box
    output: Box

    @property
    def sizes(self) -> tuple[int, ...]:
        """Batch, groups, input and output channels of a group, output rows and columns."""
        return (len(self.output[0]), *map(len, self.weight), *map(len, self.output[2:]))


class Convolution(Weighted):
    """A convolution or its transpose: one multiplication of matrices for each group.

    It is ``[out_channels, taps] . [taps, places]``, where taps are in_channels and the kernel, and places are batch, height
    and width.
    """

    def weight_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return ``[groups, in_channels, out_channels, kernel_height, kernel_width]``."""
        op: Any = layer.op
        read, made = layer.input_shapes[0]["channels"] // op.groups, op.out_channels // op.groups
        return op.groups, read, made, *op.kernel

    def fan_in(self, layer: Layer) -> float:
        """Return the products of an output element on average, at places without padding."""
        steps = layer.einsum(1).macs
        return max(1.0, steps / math.prod(layer.shape.values()))

    def part(self, layer: Layer, piece: Piece) -> _Part:
        """Return the boxes of a piece."""
        op: Any = layer.op
        groups, read, made, *_ = self.weight_shape(layer)
        shape = layer.input_shapes[0]
        held = piece["groups"] if groups > 1 else np.arange(1)
        rows, columns = (reading(op.windows[dim], piece[dim], shape[dim]) for dim in ("height", "width"))
        weight = (held, piece["in_channels"], piece["out_channels"])
        into, out = (
            (held[:, None] * size + dim).ravel() for size, dim in ((read, weight[1]), (made, weight[2]))
        )
        return _Part(
            groups=held,
            weight=weight,
            rows=rows,
            columns=columns,
            input=(piece["batch"], into, rows.elements, columns.elements),
            output=(piece["batch"], out, piece["height"], piece["width"]),
        )

    def output(self, layer: Layer, piece: Piece) -> Box:
        """Return the box of the output that a piece computes."""
        return self.part(layer, piece).output

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads, without gaps between its windows."""
        return (self.part(layer, piece).input,)

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the terms over the piece's input channels."""
        part = self.part(layer, piece)
        batch, groups, _, made, height, width = part.sizes
        product = self._filters(part, parameters["weight"]) @ self._windows(part, inputs[0])
        value = product.reshape(groups * made, batch, height, width).transpose(1, 0, 2, 3)
        return put(output_shape(layer, inputs), part.output, value)

    def backward(
        self,
        layer: Layer,
        inputs: Inputs,
        parameters: Parameters,
        error: Array,
        piece: Piece,
        sums: Sums,
        back_sums: Sums,
    ) -> Gradients:
        """Return the terms of the piece's output channels for the input, of its batch and image for the weight."""
        part = self.part(layer, piece)
        batch, groups, read, made, height, width = part.sizes
        kernel = self.weight_shape(layer)[3:]
        local = take(error, part.output)
        errors = local.transpose(1, 0, 2, 3).reshape(groups, made, batch * height * width)
        by_tap = self._windows(part, inputs[0]) @ errors.transpose(0, 2, 1)
        weight = by_tap.reshape(groups, read, *kernel, made).transpose(0, 1, 4, 2, 3)
        taps = self._filters(part, parameters["weight"]).transpose(0, 2, 1) @ errors
        taps = taps.reshape(groups * read, *kernel, batch, height, width)
        back = put(inputs[0].shape, part.input, scatter(taps, part.rows, part.columns))
        return Gradients((back,), {"weight": put(parameters["weight"].shape, part.weight, weight)})

    @staticmethod
    def _windows(part: _Part, image: Array) -> Array:
        """Return the elements that windows read: ``[groups, taps, places]``."""
        batch, groups, read, _, height, width = part.sizes
        windows = gather(take(image, part.input), part.rows, part.columns)
        return windows.reshape(groups, read * math.prod(windows.shape[1:3]), batch * height * width)

    @staticmethod
    def _filters(part: _Part, weight: Array) -> Array:
        """Return the weight: ``[groups, out_channels, taps]``."""
        filters = take(weight, part.weight)
        groups, read, made, height, width = filters.shape
        return filters.transpose(0, 2, 1, 3, 4).reshape(groups, made, read * height * width)


class Resampling(Kernel):
    """An op that weighs the elements of each window along height, then along width, channel by channel."""

    def weights(self, window: Window, outputs: Indices, taps: Indices, size: int) -> Array:
        """Return the weight of each tap, ``[outputs, kernel]``; by default one.

        Args:
            window: the window along one dim.
            outputs: the outputs along it.
            taps: -1 where a tap meets padding.
            size: elements of the input along it.
        """
        return np.ones(taps.shape)

    def readings(self, layer: Layer, piece: Piece) -> tuple[Reading, Reading]:
        """Return what a piece reads along height and along width."""
        op: Any = layer.op
        windows, shape = op.image_windows(layer.input_shapes[0]), layer.input_shapes[0]
        rows, columns = (reading(windows[dim], piece[dim], shape[dim]) for dim in ("height", "width"))
        return rows, columns

    def boxes(self, layer: Layer, piece: Piece) -> tuple[Box, ...]:
        """Return the box of the input that a piece reads: of its windows, the rows and columns that it names if any."""
        rows, columns = self.readings(layer, piece)
        along = (("input_height", rows), ("input_width", columns))
        image = [np.intersect1d(read.elements, piece.get(dim, read.elements)) for dim, read in along]
        return ((piece["batch"], piece["channels"], *image),)

    def matrices(self, layer: Layer, piece: Piece) -> tuple[Array, Array]:
        """Return the weights along height and along width, ``[outputs, elements read]``."""
        op: Any = layer.op
        shape, windows = layer.input_shapes[0], op.image_windows(layer.input_shapes[0])
        found = []
        for dim, read in zip(("height", "width"), self.readings(layer, piece), strict=True):
            weights = self.weights(windows[dim], piece[dim], read.taps, shape[dim])
            kept = piece.get(f"input_{dim}")
            whole = matrix(read, weights)
            found.append(whole if kept is None else whole[:, np.isin(read.elements, kept)])
        return found[0], found[1]

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the weighted sums."""
        down, across = self.matrices(layer, piece)
        (box,) = self.boxes(layer, piece)
        value = down @ take(inputs[0], box) @ across.T
        return put(output_shape(layer, inputs), self.output(layer, piece), value)

    def backward(
        self,
        layer: Layer,
        inputs: Inputs,
        parameters: Parameters,
        error: Array,
        piece: Piece,
        sums: Sums,
        back_sums: Sums,
    ) -> Gradients:
        """Return the transpose of the weighted sums."""
        down, across = self.matrices(layer, piece)
        (box,) = self.boxes(layer, piece)
        value = down.T @ take(error, self.output(layer, piece)) @ across
        return Gradients((put(inputs[0].shape, box, value),), {})


def summed(layer: Layer, local: Array, piece: Piece, name: str, batch: int) -> Array:
    """Return the sum of a piece's elements over the dims that a statistic runs over, as an array over all others."""
    reduced, shape = layer.op.reduced(name, layer.shape), {"batch": batch, **layer.shape}
    over = tuple(axis for axis, dim in enumerate(shape) if dim in reduced)
    kept = [dim for dim in shape if dim not in reduced]
    return put(tuple(shape[dim] for dim in kept), tuple(piece[dim] for dim in kept), local.sum(over))


def applied(layer: Layer, values: Array, piece: Piece, name: str) -> Array:
    """Return a statistic's numbers for a piece so that they apply to activations."""
    reduced = layer.op.reduced(name, layer.shape)
    dims = ("batch", *layer.shape)
    local = take(values, tuple(piece[dim] for dim in dims if dim not in reduced))
    return np.expand_dims(local, tuple(axis for axis, dim in enumerate(dims) if dim in reduced))


class Shares(Kernel):
    """``exp(x) / sum of exp(x)``; the largest x is not subtracted first, so that sums alone need all of a dim."""

    def sums(self, layer: Layer, inputs: Inputs, piece: Piece) -> dict[str, Array]:
        """Return the sums of the piece's exponentials."""
        exponentials = np.exp(take(inputs[0], self.output(layer, piece)))
        return {"exponential": summed(layer, exponentials, piece, "exponential", len(inputs[0]))}

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the exponentials over their sums."""
        return put(inputs[0].shape, self.output(layer, piece), self._shares(layer, inputs[0], piece, sums))

    def back_sums(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the sums of the error times the piece's output."""
        products = take(error, self.output(layer, piece)) * self._shares(layer, inputs[0], piece, sums)
        return {"product": summed(layer, products, piece, "product", len(error))}

    def backward(
        self,
        layer: Layer,
        inputs: Inputs,
        parameters: Parameters,
        error: Array,
        piece: Piece,
        sums: Sums,
        back_sums: Sums,
    ) -> Gradients:
        """Return the output times the error less its mean."""
        box = self.output(layer, piece)
        mean = applied(layer, back_sums["product"], piece, "product")
        value = self._shares(layer, inputs[0], piece, sums) * (take(error, box) - mean)
        return Gradients((put(error.shape, box, value),), {})

    def _shares(self, layer: Layer, whole: Array, piece: Piece, sums: Sums) -> Array:
        """Return the piece's output."""
        total = applied(layer, sums["exponential"], piece, "exponential")
        shares: Array = np.exp(take(whole, self.output(layer, piece))) / total
        return shares


class Normalised(Kernel):
    """Normalisation over some dims of each position: of what is left of the input after its mean, if it takes one."""

    def parameters(self, layer: Layer, random: np.random.Generator) -> dict[str, Array]:
        """Return weights around 1 and biases around 0."""
        means = {"weight": 1.0, "bias": 0.0}
        return {
            name: random.normal(
                means[name], 0.1, [layer.shape[dim] for dim in layer.op.parameter_dims(name, layer.shape)]
            )
            for name in layer.op.parameters(layer.input_shapes)
        }

    def sums(self, layer: Layer, inputs: Inputs, piece: Piece) -> dict[str, Array]:
        """Return the sums of the elements and of their squares at each position."""
        local = take(inputs[0], self.output(layer, piece))
        every = {"sum": local, "square": local**2}
        return {name: summed(layer, every[name], piece, name, len(inputs[0])) for name in layer.op.statistics}

    def forward(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, piece: Piece, sums: Sums
    ) -> Array:
        """Return the normalised elements, scaled and shifted."""
        value, _ = self._normalised(layer, inputs[0], piece, sums)
        for name, apply in (("weight", np.multiply), ("bias", np.add)):
            if name in parameters:
                value = apply(value, applied(layer, parameters[name], piece, name))
        return put(inputs[0].shape, self.output(layer, piece), value)

    def back_sums(
        self, layer: Layer, inputs: Inputs, parameters: Parameters, error: Array, piece: Piece, sums: Sums
    ) -> dict[str, Array]:
        """Return the sums of what the error of the normalised elements is made of, and the parameters' gradients."""
        normalised, _ = self._normalised(layer, inputs[0], piece, sums)
        local = take(error, self.output(layer, piece))
        scaled = self._scaled(layer, local, parameters, piece)
        every = {"error": scaled, "product": scaled * normalised, "weight": local * normalised, "bias": local}
        return {
            name: summed(layer, every[name], piece, name, len(error)) for name in layer.op.back_statistics
        }

    def backward(
        self,
        layer: Layer,
        inputs: Inputs,
        parameters: Parameters,
        error: Array,
        piece: Piece,
        sums: Sums,
        back_sums: Sums,
    ) -> Gradients:
        """Return the error of the input; the parameters' gradients are ``back_sums``."""
        normalised, deviation = self._normalised(layer, inputs[0], piece, sums)
        box, count = self.output(layer, piece), self._count(layer)
        value = self._scaled(layer, take(error, box), parameters, piece)
        value = value - normalised * applied(layer, back_sums["product"], piece, "product") / count
        if "error" in back_sums:
            value = value - applied(layer, back_sums["error"], piece, "error") / count
        return Gradients((put(error.shape, box, value / deviation),), {})

    def _normalised(self, layer: Layer, whole: Array, piece: Piece, sums: Sums) -> tuple[Array, Array]:
        """Return the normalised elements of a piece, and what they were divided by."""
        count, local = self._count(layer), take(whole, self.output(layer, piece))
        square = applied(layer, sums["square"], piece, "square") / count
        if "sum" not in sums:
            deviation = np.sqrt(square + EPSILON)
            return local / deviation, deviation
        mean = applied(layer, sums["sum"], piece, "sum") / count
        deviation = np.sqrt(square - mean**2 + EPSILON)
        return (local - mean) / deviation, deviation

    @staticmethod
    def _count(layer: Layer) -> int:
        """Return the number of elements that are normalised together."""
        return math.prod(layer.shape[dim] for dim in layer.op.statistics_over)

    @staticmethod
    def _scaled(layer: Layer, error: Array, parameters: Parameters, piece: Piece) -> Array:
        """Return the error of the normalised elements."""
        return (
            error * applied(layer, parameters["weight"], piece, "weight") if "weight" in parameters else error
        )
