"""Measuring a profile: what one device takes for each layer's piece under each choice of a level."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.errors import OptionError, ProfileError
from hypar.machine.profiles import Profile, ProfiledModel
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.plan.plan import MOST_DEVICES
from hypar.planning.request import space_text
from hypar.planning.strategies.base import load_strategy
from hypar.sharding.dims import grid_word
from hypar.sharding.placement import WHOLE
from hypar.sharding.space import parse_space
from hypar.studies.profiling.pieces import Piece, piece_of
from hypar.studies.profiling.torch_bench import Bench, load_bench
from hypar.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

MOST_REPEATS = 1000


def profile_model(
    model: LayerGraph | str | Path,
    *,
    ways: int = 16,
    batch: int | None = None,
    space: str | None = None,
    repeats: int = 3,
    bench: Bench | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Profile:
    """Measure what one device takes for its piece of each layer, pools included, under each choice of a level.

    A time is that of the forward, backward and gradient phases of the fullest device's piece, once for all pieces
    that are equal. Biases, updates, and the ops between layers are left out.

    Args:
        model: a network, the path of a model file, or a bare name as ``vgg16``.
        ways: devices of the level; some may be idle.
        batch: samples in a mini-batch, if not the model's own number.
        space: other choices than those of the strategy ``deepa``, as ``plan_model`` takes them.
        repeats: rounds over all pieces; of each piece the least time counts.
        bench: what measures a piece; PyTorch on this machine if not given.
        progress: told how many of how many measurements are done.

    Raises:
        InputError: something asked for is not possible: PyTorch is missing, or a piece does not fit.
    """
    network = model if isinstance(model, LayerGraph) else load_model(model)
    network = network if batch is None else network.with_batch(batch)
    _require_whole("ways", ways, 2, MOST_DEVICES)
    _require_whole("repeats", repeats, 1, MOST_REPEATS)
    pieces = pieces_of(network, load_strategy("deepa").space if space is None else space_text(space), ways)
    bench = load_bench() if bench is None else bench
    times = _measured(pieces, bench, repeats, progress)
    return Profile(
        model=ProfiledModel(name=network.name, digest=network.digest, batch=network.batch),
        device=bench.device,
        ways=ways,
        seconds={
            layer: {word: times[piece] for word, piece in by_choice.items()}
            for layer, by_choice in pieces.items()
        },
    )


def pieces_of(graph: LayerGraph, space: str, ways: int) -> dict[str, dict[str, Piece]]:
    """The fullest device's piece of each layer under each choice, those of most devices first, the whole layer last.

    Raises:
        OptionError: the space does not suit the network, or an op cannot be measured.
    """
    layers = {layer.name: layer for layer in graph.layers}
    allowed = parse_space(space)
    return {
        cut.name: {
            grid_word(choice.as_degrees()): piece_of(layers[cut.name], cut.einsum, choice, graph.dtype)
            for choice in (*allowed.choices(cut, ways, idle=True), WHOLE)
        }
        for cut in graph.operators.layers
    }


def _measured(
    pieces: Mapping[str, Mapping[str, Piece]],
    bench: Bench,
    repeats: int,
    progress: Callable[[int, int], None],
) -> dict[Piece, float]:
    """Least seconds of each distinct piece, to four digits.

    Rounds go over all pieces, so that a busy moment of the machine spoils one measurement of some, not all of one.
    The largest piece, which may not fit, comes first.
    """
    places: dict[Piece, str] = {}
    for layer, by_choice in pieces.items():
        for word, piece in by_choice.items():
            places.setdefault(piece, f"profile: {layer}, {word}")
    largest = sorted(places, key=lambda piece: -piece.num_bytes)
    _require_fits(largest[0], bench, places[largest[0]])
    times = dict.fromkeys(largest, math.inf)
    for done, piece in enumerate(largest * repeats):
        progress(done, len(largest) * repeats)
        times[piece] = min(times[piece], _seconds(piece, bench, places[piece]))
    progress(len(largest) * repeats, len(largest) * repeats)
    return {piece: float(f"{seconds:.4g}") for piece, seconds in times.items()}


def _seconds(piece: Piece, bench: Bench, where: str) -> float:
    """One measurement, or in one line why there is none."""
    try:
        return bench.seconds(piece)
    except (MemoryError, RuntimeError) as error:
        said = next(iter(str(error).splitlines()), "out of memory")
        raise ProfileError(where, said, hint="try a smaller batch") from error


def _require_fits(piece: Piece, bench: Bench, where: str) -> None:
    """Refuse a piece whose tensors alone are larger than the memory."""
    if bench.memory_bytes is not None and piece.num_bytes > bench.memory_bytes:
        found = f"tensors and gradients of {format_bytes(piece.num_bytes)}"
        allowed = f"the memory's {format_bytes(bench.memory_bytes)}"
        raise ProfileError(where, found, allowed, "try a smaller batch")


def _require_whole(name: str, number: int, least: int, most: int) -> None:
    """Refuse what is no whole number, or out of its range.

    Raises:
        OptionError: it is.
    """
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise OptionError(name, f"found {number!r}", f"a whole number from {least} to {most:,}")
