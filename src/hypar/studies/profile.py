"""Measured profiles: the time of each layer's shard on the fullest device, under each choice of a level.

Sizes are rounded up to whole elements. A cut height or width includes the input rows that its windows read, and
counts padding as rows, so that such a shard is not padded again; an uncut one is padded as the layer is. Transposed
windows make a few rows beyond those of the shard from the rows that it reads; the output is then cut to its size.
"""

from __future__ import annotations

import importlib
import math
import operator
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from hypar.activity import count, tell
from hypar.errors import OptionError, ProfileError
from hypar.machine.profiles import Profile, ProfiledModel
from hypar.network.graph import LayerGraph, load_model
from hypar.network.layer import Layer
from hypar.network.training import DTYPE_BYTES
from hypar.ops.nest import Nest
from hypar.ops.windows import Window
from hypar.planning.resolved import space_text
from hypar.planning.strategies.base import load_strategy
from hypar.sharding.dims import grid_word
from hypar.sharding.placement import WHOLE, Choice
from hypar.sharding.space import parse_space
from hypar.sharding.tree import MOST_DEVICES
from hypar.units import format_bytes

Sizes = tuple[int, ...]

MOST_REPEATS, MOST_RUNS, LEAST_SECONDS = 1000, 1000, 0.005
"""Rounds, runs of a shard in each, and the seconds for which it is run, at least once, so that a short one is run often."""

MEASURED = ("conv", "conv_transpose", "linear", "crop", "add", "concat", "max", "average", "nearest", "bilinear")  # fmt: skip
"""The ops of shards, with the modes of pools and of upsampling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShard:
    """The computation of one device, of an op in ``MEASURED``; equal shards take equal time.

    ``output`` and each of ``inputs`` are ``[batch, channels]``, of an image with ``height, width``. ``weight`` is ``[out_channels,
    in_channels of a group]``, of a ``conv_transpose`` ``[in_channels, out_channels of a group]``, with the sides of a kernel, or
    empty. ``windows`` are along height and width; with ``round_up`` a last one may hang over the edge.
    """

    op: str
    dtype: str
    inputs: tuple[Sizes, ...]
    weight: Sizes = ()
    output: Sizes
    windows: tuple[Window, ...] = ()
    groups: int = 1
    round_up: bool = False

    @property
    def read(self) -> list[Sizes]:
        """The shapes of all tensors that are read, the weight last."""
        return [*self.inputs, *filter(None, [self.weight])]

    @property
    def num_bytes(self) -> int:
        """The bytes of all tensors and of a gradient for each."""
        return 2 * DTYPE_BYTES[self.dtype] * sum(map(math.prod, (*self.read, self.output)))


def profile_model(
    model: LayerGraph | str | Path,
    *,
    ways: int = 16,
    batch: int | None = None,
    space: str | None = None,
    repeats: int = 3,
    bench: TorchBench | None = None,
) -> Profile:
    """Measure one device's time for its shard of each layer, pools included, under each choice of a level.

    A time covers the forward, backward and gradient phases of the fullest device's shard, measured once for all
    equal shards. Biases, updates, and the ops between layers are left out.

    Args:
        model: a network, the path of a model file, or a bare name as ``vgg16``.
        ways: devices of the level; some may be idle.
        batch: samples in a mini-batch, if not the model's own number.
        space: choices other than those of the strategy ``deepa``, as in ``plan_model``.
        repeats: rounds over all shards; the shortest time of each counts.
        bench: what measures shards, in place of PyTorch on this machine.

    Raises:
        InputError: the request cannot be met: PyTorch is missing, or a shard does not fit.
    """
    network = load_model(model, batch=batch)
    for name, number, least, most in (("ways", ways, 2, MOST_DEVICES), ("repeats", repeats, 1, MOST_REPEATS)):
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise OptionError(name, f"found {number!r}", f"a whole number from {least} to {most:,}")
    shards = shards_of(network, load_strategy("deepa").space if space is None else space_text(space), ways)
    bench = TorchBench() if bench is None else bench
    named = [(shard, f"{layer}, {word}") for layer, own in shards.items() for word, shard in own.items()]
    times = _measured(dict(reversed(named)), bench, repeats)
    measured = {layer: {word: times[own] for word, own in each.items()} for layer, each in shards.items()}
    of = ProfiledModel(name=network.name, digest=network.digest, batch=network.batch)
    return Profile(model=of, device=bench.device, ways=ways, seconds=measured)


def _measured(places: Mapping[LayerShard, str], bench: TorchBench, repeats: int) -> dict[LayerShard, float]:
    """Return the shortest seconds of each shard, to four digits.

    Rounds go over all shards, so that a busy moment of the machine spoils one measurement of several shards instead of
    all measurements of one. The largest shard, which may not fit, comes first.
    """
    largest = sorted(places, key=lambda shard: -shard.num_bytes)
    size, room = largest[0].num_bytes, bench.memory_bytes
    if room is not None and size > room:
        found = f"tensors and gradients of {format_bytes(size)}"
        raise _unfit(places[largest[0]], found, f"the memory's {format_bytes(room)}")
    times, number = dict.fromkeys(largest, math.inf), len(largest) * repeats
    for done, shard in enumerate(largest * repeats):
        count(done, number)
        tell(f"measuring {places[shard]}")
        try:
            times[shard] = min(times[shard], bench.seconds(shard))
        except (MemoryError, RuntimeError) as error:
            raise _unfit(places[shard], next(iter(str(error).splitlines()), "out of memory")) from error
    count(number, number)
    return {shard: float(f"{seconds:.4g}") for shard, seconds in times.items()}


def _unfit(place: str, found: str, allowed: str = "") -> ProfileError:
    return ProfileError(f"profile: {place}", found, allowed, "try a smaller batch")


def shards_of(graph: LayerGraph, space: str, ways: int) -> dict[str, dict[str, LayerShard]]:
    """Return the fullest device's shard of each layer under each choice, the whole layer last; raises ``OptionError``."""
    layers = {layer.name: layer for layer in graph.layers}
    allowed = parse_space(space)
    return {
        cut.name: {
            grid_word(dict(choice.degrees)): shard_of(layers[cut.name], cut.nest, choice, graph.dtype)
            for choice in (*allowed.choices(cut, ways, idle=True), WHOLE)
        }
        for cut in graph.operators.layers
    }


def shard_of(layer: Layer, nest: Nest, choice: Choice, dtype: str) -> LayerShard:
    """Return a layer's shard, of its dims and tensors for the mini-batch, on the fullest device; raises ``OptionError``."""
    op = layer.op
    word = "conv" if layer.op_name in {"conv", "conv1d"} else getattr(op, "mode", layer.op_name)
    if word not in MEASURED or "channels" not in layer.shape:
        found = f"op {layer.op_name!r} of layer {layer.name!r} cannot be measured"
        raise OptionError("profile", found, "conv, conv_transpose, linear, pool, upsample, crop, add, concat")
    sizes = {dim: -(-size // choice.degree(dim)) for dim, size in nest.sizes.items()}
    batch, groups, weight = sizes["batch"], sizes.get("groups", 1), ()
    if layer.weighted:
        read, made = [groups * sizes["in_channels"]], groups * sizes["out_channels"]
        ends = (read[0], made // groups) if word == "conv_transpose" else (made, read[0] // groups)
        weight = (*ends, *getattr(op, "kernel", ()))
    else:
        read = [-(-shape["channels"] // choice.degree("channels")) for shape in layer.input_shapes]
        made = sum(read) if nest.concatenates else read[0]
    image = {dim: sizes[dim] for dim in layer.shape if dim != "channels"}
    rows, windows = _read(nest, choice, image)
    return LayerShard(
        op=word, dtype=dtype, inputs=tuple((batch, channels, *rows) for channels in read), weight=weight,
        output=(batch, made, *image.values()), windows=windows, groups=groups,
        round_up=getattr(op, "rounding", "") == "up",
    )  # fmt: skip


def _read(nest: Nest, choice: Choice, image: Mapping[str, int]) -> tuple[Sizes, tuple[Window, ...]]:
    """Return the input's rows along each dim of the output's image, and its windows, padded unless cut."""
    rows, windows = {**image}, {**nest.windows}
    for dim, window in nest.windows.items():
        rows[dim] = nest.input_sizes[dim]
        if choice.degree(dim) > 1:
            ends = np.arange(choice.degree(dim) + 1) * nest.sizes[dim] // choice.degree(dim)
            low, high = window.reads(ends[:-1], ends[1:])
            windows[dim] = replace(window, padding=0)
            rows[dim] = max(windows[dim].least_input(image[dim]), int((high - low).max()))
    return tuple(rows.values()), tuple(windows.values())


class TorchBench:
    """PyTorch on this machine's processor, imported when a bench is made; its memory may be unknown.

    A run is the forward phase and then the backward and gradient phases by PyTorch's own differentiation. A first run
    warms up; of the others the fastest counts, because other work of the machine only makes a run slower. Making one raises
    ``OptionError`` where PyTorch is not installed.
    """

    def __init__(self) -> None:
        try:
            self.torch: Any = importlib.import_module("torch")
        except (ImportError, OSError):
            hint = "pip install '.[profile]' in a clone of hypar"
            raise OptionError("profile", "torch is not installed", hint=hint) from None
        version, threads = self.torch.__version__, self.torch.get_num_threads()
        self.device = f"cpu {platform.machine()}, torch {version}, {threads} threads"
        self.memory_bytes: int | None = None
        with suppress(AttributeError, ValueError, OSError):
            self.memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def seconds(self, shard: LayerShard) -> float:
        """Return the seconds that a shard takes; a MemoryError or a RuntimeError says that it cannot be run."""
        return least_seconds(self.step(shard))

    def step(self, shard: LayerShard) -> Callable[[], object]:
        """Return a function that runs all phases on random numbers."""
        generator = self.torch.Generator().manual_seed(0)
        random = partial(self.torch.rand, generator=generator, dtype=getattr(self.torch, shard.dtype))
        read = [random(shape, requires_grad=True) for shape in shard.read]
        error, forward = random(shard.output), self.forward(shard)
        return lambda: self.torch.autograd.grad(forward(*read), read, error)

    def forward(self, shard: LayerShard) -> Callable[..., Any]:
        """Return the forward phase as a function of its inputs."""
        torch, of = self.torch, self.torch.nn.functional
        kernel, stride, padding, dilation, added = (
            tuple(getattr(window, name) for window in shard.windows)
            for name in ("kernel", "stride", "padding", "dilation", "output_padding")
        )
        slid = {"stride": stride, "padding": padding}
        conv = {**slid, "dilation": dilation, "groups": shard.groups}
        pool = {**slid, "kernel_size": kernel, "ceil_mode": shard.round_up}
        enlarge = partial(of.interpolate, scale_factor=stride, mode=shard.op)
        run: Callable[..., Any] = {
            "linear": of.linear, "add": lambda *read: reduce(operator.add, read), "concat": lambda *read: torch.cat(read, 1),
            "crop": lambda read: _centre(read, shard.output).clone(), **dict.fromkeys(("nearest", "bilinear"), enlarge),
            "conv": partial(of.conv2d, **conv), "conv_transpose": partial(of.conv_transpose2d, **conv, output_padding=added),
            "max": partial(of.max_pool2d, **pool), "average": partial(of.avg_pool2d, **pool),
        }[shard.op]  # fmt: skip
        transposed = any(window.transposed for window in shard.windows)
        return (lambda *read: _centre(run(*read), shard.output)) if transposed else run


def _centre(image: Any, sizes: Sequence[int]) -> Any:
    for dim in (2, 3):
        image = image.narrow(dim, (image.shape[dim] - sizes[dim]) // 2, sizes[dim])
    return image


def least_seconds(step: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the least time of some runs after one that warms up."""
    step()
    taken: list[float] = []
    while not taken or (sum(taken) < LEAST_SECONDS and len(taken) < MOST_RUNS):
        start = clock()
        step()
        taken.append(clock() - start)
    return min(taken)
