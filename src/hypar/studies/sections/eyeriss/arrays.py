"""ISCA 2016's Figure 10 and TETRIS' two ratios."""

from __future__ import annotations

from hypar.machine.load import load_machine
from hypar.studies.page import Section, beside
from hypar.studies.sections.eyeriss.published import ISCA, ISCA_BATCH, TETRIS_ENERGY
from hypar.studies.sections.eyeriss.runs import energy, forward

PER_UNIT = 1e-3
"""Joules of 10^9 energies of a MAC, which the machine's file calls 1 pJ."""


def isca_energies() -> dict[str, tuple[float, float, float]]:
    """Return the energy of arithmetic, DRAM and registers of each layer, in the figure's unit."""
    found = {}
    for name, time in forward("eyeriss-isca", "alexnet-2012", ISCA_BATCH).items():
        parts = energy("eyeriss-isca", time)
        arithmetic, memory, registers = (
            parts[part] / PER_UNIT for part in ("arithmetic", "memory", "registers")
        )
        found[name] = arithmetic, memory, registers
    return found


def figure_10() -> Section:
    """Compare the energies of AlexNet's layers."""
    ours = isca_energies()
    rows = tuple(
        (name, *(cell for pair in zip(ISCA[name], ours[name], strict=True) for cell in beside(*pair)))
        for name in ISCA
    )
    parts = (
        f"{part}, {whose}"
        for part in ("ALU", "DRAM", "registers")
        for whose in ("published", "ours", "ratio")
    )
    return Section(
        title="ISCA 2016, Figure 10: energy of AlexNet's layers",
        text=(
            "Batch 16, 16 x 16 elements, 128 kB, in 10^9 times the energy of a MAC. Mappings are chosen by their words"
            " before their cycles, as the paper chooses them by energy; partial sums stay in the buffer; padding is"
            " counted, which DRAM words of conv3 to conv5 show that the paper does. No number is fitted, but two rules"
            " are chosen with the figure in view: that partial sums stay in the buffer, and that words come before cycles;"
            " cycles first give conv2 a DRAM energy of 2.50."
        ),
        heads=("layer", *parts),
        rows=rows,
    )


def tetris_ratios() -> tuple[float, float, float]:
    """Return the ratio of the elements, of the speeds and of the energies of TETRIS' cube and the planar array."""
    rates, seconds, joules = [], [], []
    for name in ("tetris", "tetris-2d"):
        machine = load_machine(name)
        times = forward(name, "alexnet-2012", ISCA_BATCH).values()
        # The frequencies are equal, so that the rates are in proportion to the elements.
        rates.append(machine.flop_per_s)
        seconds.append(sum(time.seconds["forward"] for time in times))
        joules.append(sum(sum(energy(name, time).values()) for time in times))
    return rates[0] / rates[1], seconds[1] / seconds[0], joules[0] / joules[1]


def tetris() -> Section:
    """Compare TETRIS' cube with the array that it is compared with."""
    elements, speed, joules = tetris_ratios()
    return Section(
        title="TETRIS: a cube beside an array with planar DRAM",
        text=(
            "AlexNet forward, batch 16: 16 vaults with 14 x 14 elements each beside one array of 16 x 16. TETRIS says"
            " that the speed is in proportion to the elements, within 20 percent, and that the energy is less by about"
            " 30 percent. Hops between vaults take no energy here. Nothing is fitted."
        ),
        heads=("cube over planar array", "published", "ours", "ratio"),
        rows=(("speed", *beside(elements, speed)), ("energy", *beside(TETRIS_ENERGY, joules))),
    )
