"""Colours are legible, and told apart whatever colours their reader sees."""

import re
from collections.abc import Iterable
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from hypar.network.graph import load_model
from hypar.registry import data_names
from hypar.reports.renderers import style
from hypar.reports.words import RULE, TIMES, WHITE, colour_of, colours_of

# Machado, Oliveira, Fernandes (IEEE TVCG 15, 2009), severity 1.0, on linear RGB.
SIGHTS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}

# Ottosson, "A perceptual color space for image processing" (2020).
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(colour: str) -> NDArray[np.float64]:
    """Linear RGB of a colour of sRGB, by IEC 61966-2-1."""
    coded = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def distance(one: str, other: str, sight: str) -> float:
    def seen(colour: str) -> NDArray[np.float64]:
        return np.asarray(TO_LAB @ np.cbrt(TO_CONES @ np.clip(SIGHTS[sight] @ linear(colour), 0, 1)))

    return 100 * float(np.linalg.norm(seen(one) - seen(other)))


DIMS = {
    dim: colours_of(dim).ground
    for dim in ("batch", "in_channels", "out_channels", "height", "width", "groups", None)
}


def variables(*, dark: bool) -> dict[str, str]:
    """The colours of the page's style in one scheme."""
    rules = style().split("@media screen and (prefers-color-scheme:dark){")
    return dict(re.findall(r"--([a-z]+):(#[0-9a-f]{6})", rules[dark].split("}\n}")[0]))


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(linear(own) @ [0.2126, 0.7152, 0.0722]) for own in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_texts_and_marks_of_a_page_are_legible(dark: bool) -> None:
    found = variables(dark=dark)
    for name in ("ink", "muted", "good", "warn", "bad"):
        assert contrast(found[name], found["ground"]) >= 4.5
        assert contrast(found[name], found["surface"]) >= 4.5
    for name in ("rule", "computes", "receives", "energy"):
        assert contrast(found[name], found["ground"]) >= 3


def test_marks_of_pictures_are_seen_and_texts_on_choices_are_legible() -> None:
    for colour in (*TIMES.values(), RULE):
        assert contrast(colour, WHITE) >= 3
    for name in data_names("models"):
        for layer in load_model(name).contracted.layers:
            for dim in layer.nest.sizes:
                colours = colours_of(dim)
                assert contrast(colours.ground, colours.text) >= 4.5, dim


def told_apart(colours: Iterable[str], least: float, sight: str) -> None:
    for one, other in combinations(dict.fromkeys(colours), 2):
        assert distance(one, other, sight) > least, (one, other)


@pytest.mark.parametrize("sight", SIGHTS)
def test_dims_and_kinds_of_time_are_told_apart(sight: str) -> None:
    told_apart(DIMS.values(), 9, sight)
    told_apart([*TIMES.values(), colour_of("energy")], 9, sight)


def test_no_two_dims_of_a_network_share_a_colour() -> None:
    for name in data_names("models"):
        dims = {dim for layer in load_model(name).contracted.layers for dim in layer.nest.sizes}
        dims = {dim for dim in dims if not dim.startswith("kernel_")} - {"channels"}
        assert len({colours_of(dim).ground for dim in dims}) == len(dims), name
