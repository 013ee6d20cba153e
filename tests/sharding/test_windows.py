"""Rows of images that parts read, hold and add up, against explicit sets and against the program's count."""

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hypar.ops.windows import ShapeError, Window
from hypar.program.holding import Holding, flattened, one_each
from hypar.sharding.amounts.cuts import ratios
from hypar.sharding.amounts.windows import Digit, Image, Rows
from hypar.sharding.placement import COPIES, IDLE

ROWS, COLUMNS, BATCH, CHANNELS = "rows", "columns", "batch", "channels"
IMAGE, OTHERS = (ROWS, COLUMNS), (BATCH, CHANNELS)
STAGES = Digit(2, IDLE, IDLE, shares=((1.0, 0.0), (0.0, 1.0)))


class Case(NamedTuple):
    image: Image
    digits: tuple[Digit, ...]


def by_ratios(case: Case) -> NDArray[np.float64]:
    """The counts as multiples of the elements that are read: those of equal shares without windows, times ratios."""
    rows = ratios(case.image, case.digits)
    as_terms = tuple([(dim, own._replace(adds=False)) for dim, own in case.image])
    owned = ratios(as_terms, case.digits).owned
    found = np.array([rows.need, rows.kept, rows.both, owned, rows.back, rows.added])
    for own in case.digits:
        ways, labels = own.ways, {*own[1:3]}
        first, equal = np.eye(ways)[0], np.ones(ways)
        hold, need = (
            np.array(of)
            if own is STAGES
            else first
            if label == IDLE
            else equal / ways
            if label in OTHERS
            else equal
            for label, of in zip(own[1:3], (own.of(0), own.of(1)), strict=True)
        )
        both = (hold * need).sum() / ways ** len(labels & {*IMAGE})
        needs, holds = need.sum() / ways ** (own.read in IMAGE), hold.sum() / ways ** (own.made in IMAGE)
        found *= needs, holds, both, both if labels & {*OTHERS} else min(both, 1.0), both, needs
    return found


def has(digit: Digit, end: int, part: int, dims: Sequence[str]) -> tuple[float, float]:
    """The start and the end of what a part has of the dims among which its label is, or nothing if it is idle."""
    shares = digit.of(end)
    if digit[1 + end] in dims:
        return math.fsum(shares[:part]), math.fsum(shares[: part + 1])
    return 0.0, float(shares[part] > 0)


# By sets: an element is one index of each dim, a device one value of each split.


def in_sets(case: Case) -> Iterator[tuple[float, ...]]:
    """The counts of each depth, from who has which element; rows are summed as a program does."""
    image, digits = case
    devices = np.array([*itertools.product(*[range(own.ways) for own in digits])])
    parts = [
        np.unique(devices[:, : at + 1], axis=0, return_inverse=True)[1].reshape(-1)
        for at in range(len(digits))
    ]
    members = []
    for end in (0, 1):
        bounds = [
            [has(own, end, part, (*IMAGE, *OTHERS)) for part in of]
            for own, of in zip(digits, devices.T, strict=True)
        ]
        working = np.all([[high > low for low, high in own] for own in bounds], axis=0)
        own = [_others(digits, devices, end, dim) & working[:, None] for dim in OTHERS]
        for dim, rows in image:
            size = rows.places if end else rows.size
            divided = np.zeros((len(devices), size), bool)
            for device in np.flatnonzero(working):
                low, high = 0, size
                for each, at in zip(digits, devices[device], strict=True):
                    if each[1 + end] == dim:
                        first, last = has(each, end, at, IMAGE)
                        low, high = (
                            low + int(first * (high - low) + 1e-9),
                            low + int(last * (high - low) + 1e-9),
                        )
                divided[device, low:high] = True
            own.append(divided @ taps_of(rows) if end else divided & taps_of(rows).any(axis=0))
        members.append(Holding(tuple(own)))
    have, need = members
    every = [flattened(own.members) for own in (need, have, one_each(need, have))]
    size = math.prod(
        [int(taps_of(rows).any(axis=0).sum()) for _, rows in image], start=math.prod(have.shape[:2])
    )
    for part in parts:
        masks = (np.stack([one[part == at].any(axis=0) for at in range(part.max() + 1)]) for one in every)
        reads, holds, sums = masks
        found = (reads, holds, holds & reads, (holds & reads).any(axis=0), holds & sums, sums)
        yield tuple(int(one.sum()) / size for one in found)


@lru_cache
def taps_of(rows: Rows) -> NDArray[np.bool_]:
    """Whether each output reads each row, ``[outputs, rows]``, tap by tap."""
    window, found = rows.window, np.zeros((rows.places, rows.size), bool)
    sliding, over = (found.T, rows.size) if window.transposed else (found, rows.places)
    for at, tap in itertools.product(range(over), range(window.kernel)):
        meets = at * window.stride - window.padding + tap * window.dilation
        if 0 <= meets < sliding.shape[1]:
            sliding[at, meets] = True
    return found


def _others(digits: Sequence[Digit], devices: NDArray[np.int64], end: int, dim: str) -> NDArray[np.bool_]:
    """Which samples or channels each device has: each is a tuple of digits, and each digit divides one of them."""
    sizes = []
    for own in digits:
        given = {
            share
            for label, shares in zip(own[1:3], (own.of(0), own.of(1)), strict=True)
            if label == dim
            for share in shares
        }
        # Uneven shares are of tenths.
        sizes.append(10 if len(given) > 1 else own.ways if given else 1)
    indices = np.array([*itertools.product(*map(range, sizes))])
    found = np.ones((len(devices), len(indices)), bool)
    for at, own in enumerate(digits):
        if own[1 + end] == dim:
            bounds = np.rint(np.array([has(own, end, part, OTHERS) for part in devices[:, at]]) * sizes[at])
            found &= (bounds[:, :1] <= indices[:, at]) & (indices[:, at] < bounds[:, 1:])
    return found


# Random cases.


WAYS = (2, 2, 2, 3, 4, 5)
SHARES = ((0.2, 0.3, 0.5), (0.5, 0.3, 0.2), (0.2, 0.5, 0.3), (0.6, 0.0, 0.4))


def drawn(
    draw: random.Random, *, uneven: bool = False, image: Sequence[str] = (ROWS,), most: int = 12
) -> Case:
    labels = (*image, *image, *image, *OTHERS, COPIES)
    dims = tuple((dim, drawn_rows(draw)) for dim in image)
    while True:
        digits = []
        for _ in range(draw.randint(1, 4)):
            made, read = draw.choice(labels), draw.choice(labels)
            if draw.random() < 0.1 and not uneven:
                made, read = draw.choice(((made, IDLE), (IDLE, read), (IDLE, IDLE)))
            if {made, read} & {*image}:
                digits.append(Digit(draw.choice(WAYS), made, read))
        if uneven:
            made, read = draw.choice(
                ((draw.choice(image), draw.choice(labels)), (draw.choice(labels), draw.choice(image)))
            )
            own = Digit(3, made, read, shares=(draw.choice(SHARES), draw.choice(SHARES)))
            digits.insert(draw.randint(0, len(digits)), own)
            if draw.random() < 0.3:
                digits.insert(draw.randint(0, len(digits)), STAGES)
        if digits and math.prod(own.ways for own in digits) <= most:
            return Case(dims, tuple(digits))


def drawn_rows(draw: random.Random) -> Rows:
    while True:
        kernel, size = draw.choice((1, 2, 3, 5, 7)), draw.choice((1, 4, 7, 8, 12, 13, 16, 28, 30))
        padding, dilation = draw.choice((0, kernel // 2)), draw.choice((1, 1, 2, 3))
        transposed = draw.random() < 0.2
        window = Window(
            kernel=kernel,
            stride=draw.randint(1, 4),
            padding=padding,
            dilation=dilation,
            transposed=transposed,
        )
        try:
            rows = Rows(window, size, window.output_size(size))
        except ShapeError:
            continue
        if taps_of(rows).any():
            return rows


@pytest.mark.parametrize(
    ("image", "uneven", "number"), [((ROWS,), False, 1100), ((ROWS,), True, 450), (IMAGE, False, 450)]
)
def test_counts_are_those_of_sets(image: Sequence[str], uneven: bool, number: int) -> None:
    """Whose error is added up where is counted as if no digits were further in."""
    draw = random.Random(1)
    for _ in range(number):
        case = drawn(draw, uneven=uneven, image=image)
        for depth, expected in enumerate(in_sets(case), start=1):
            last = 6 if depth == len(case.digits) else 4
            found = by_ratios(Case(case.image, case.digits[:depth]))
            assert found[:last] == pytest.approx(expected[:last], abs=1e-9), (case, depth)
