"""The machine ``hmc-physical`` beside ``hmc``: HyPar's evaluation on both, energy by component, and the weight of each property."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.machine.load import load_machine
from hypar.sharding.conventions import MOVED, PAPER
from hypar.studies.evaluation import Evaluation, joules, savings, speedups
from hypar.studies.page import Section, geometric_mean
from hypar.studies.sections.hypar.networks import HALF, LEVELS, NETWORKS
from hypar.units import format_joules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypar.machine.machine import Machine
    from hypar.plan.score import Score

MACHINE = "hmc-physical"

CUBES = 1 << LEVELS

WORD = "bfloat16"
"""The number format of the machine's 16-bit words."""

COMPONENTS = {
    "arithmetic": "arithmetic", "registers": "registers", "array": "array", "buffer": "buffer", "memory": "DRAM",
    "communication": "DRAM for words moved", "link": "links", "static": "at rest",
}  # fmt: skip
"""The components of a score's energy, as the page names them."""

WITHOUT: dict[str, dict[str, Any]] = {
    "all of it": {},
    "nothing at rest": {"energy.static": "0 W"},
    "arrays alone at rest, as in TETRIS": {"energy.static": "100 mW"},
    "nothing at rest, nor for links and sums": {"energy.static": "0 W", "energy.link": "0 J", "sums": "free"},
    "DRAM at 640 pJ a word": {"energy.memory": "640 pJ"},
    "8 units a cube": {"units_per_device": 8},
    "25.6 Gb/s for each link": {"bandwidth": "link", "link_bandwidth": "25.6 Gb/s"},
}
"""Changes of the machine, by their description."""


class Both(NamedTuple):
    """The evaluation on both machines.

    Attributes:
        published: on ``hmc``, counted by the paper.
        same: the same plans on ``hmc-physical``, counted by the paper.
        moved: HyPar's search on ``hmc-physical`` for what moves, counted so.
    """

    published: Evaluation
    same: Evaluation
    moved: Evaluation


def both(published: Evaluation) -> Both:
    """Return the evaluation on ``hmc-physical`` beside the published one."""
    same = Evaluation(
        networks=NETWORKS, hardware=MACHINE, levels=LEVELS, inter_weight=HALF, convention=PAPER, dtype=WORD
    )
    moved = Evaluation(networks=NETWORKS, hardware=MACHINE, levels=LEVELS, convention=MOVED, dtype=WORD)
    return Both(published, same, moved)


def the_machine(ran: Both) -> Section:
    """Show VGG-A's step on both machines, component by component."""
    scores = {
        (machine, strategy): each.score("vgg-a", strategy)
        for machine, each in (("hmc", ran.published), (MACHINE, ran.same))
        for strategy in ("dp", "hypar")
    }
    before, after = (load_machine(each.hardware) for each in (ran.published, ran.same))
    watts = {plan: f"{_watts(score):.1f}" for plan, score in scores.items()}
    own = scores[MACHINE, "hypar"]
    at_rest = (own.energy or {})["static"] / (own.energy_j or 1.0)
    computing, sending = (
        _part(own, communication=sent) / _part(scores["hmc", "hypar"], communication=sent)
        for sent in (False, True)
    )
    return Section(
        title="The machine hmc-physical",
        text=(
            "`hmc` is HyPar's machine as published: it has energies of arithmetic, of an SRAM and of DRAM, and registers, links"
            f" and cubes at rest take nothing. `{MACHINE}` has the same array, network and size of memory, with cubes as TETRIS"
            f" has them (ASPLOS 2017). Under each of 16 vaults are {_array(after)} in place of {_array(before)}, for words of"
            f" {_word_bits(after)} bits in place of {_word_bits(before)}, beside a buffer to which a mapping is searched. Every"
            f" place has its energy: a word takes {_joules(after, 'memory')} in DRAM in place of {_joules(before, 'memory')},"
            f" and {_joules(after, 'link')} on each link. Sums are counted, and each unit draws power at rest. Networks have"
            " 16-bit elements on it. The table has the joules of all cubes in a step of VGG-A, counted by the paper. HyPar's plan"
            f" takes {computing:.2f} of the time on `hmc` for computation, and {sending:.2f} of it for communication."
            f" A cube takes {watts['hmc', 'dp']} W under dp and {watts['hmc', 'hypar']} W under HyPar on `hmc`, and"
            f" {watts[MACHINE, 'dp']} W and {watts[MACHINE, 'hypar']} W here, where hybrid memory cubes are known for some 10 W;"
            f" {at_rest:.0%} of HyPar's energy is drawn at rest."
        ),
        heads=("machine", "plan", "ms", *COMPONENTS.values(), "joules", "W a cube"),
        rows=tuple(
            (machine, {"hypar": "HyPar"}.get(strategy, strategy), *_cells(score))
            for (machine, strategy), score in scores.items()
        ),
    )


def _array(machine: Machine) -> str:
    fields = machine.compute.model_dump()
    rows, columns, hertz = (fields[key]["value"] for key in ("rows", "columns", "frequency"))
    return f"{rows} x {columns} elements at {hertz / 1e6:.0f} MHz"


def _word_bits(machine: Machine) -> int:
    return round(8 * machine.content.device.word.value)


def _joules(machine: Machine, place: str) -> str:
    energy = machine.content.device.energy
    return format_joules(getattr(energy, place).value)


def _cells(score: Score) -> tuple[str, ...]:
    energy = score.energy or {}
    parts = [f"{energy[part]:.2f}" if part in energy else "" for part in COMPONENTS]
    return (f"{1e3 * score.time_s:.0f}", *parts, f"{score.energy_j or 0:.2f}", f"{_watts(score):.2f}")


def _part(score: Score, *, communication: bool) -> float:
    """Return the seconds of communication, or of the rest of a step."""
    sent = score.time["communication"]
    return sent if communication else score.time_s - sent


def _watts(score: Score) -> float:
    """Return the power of a cube, on average over a step."""
    return (score.energy_j or 0.0) / score.time_s / CUBES


def what_makes_it(ran: Both) -> Section:
    """Compute the means with one property of the machine changed at a time."""
    whole = Evaluation(networks=NETWORKS, hardware=MACHINE, levels=LEVELS, inter_weight=HALF)
    found = {words: _means(ran.same, changes) for words, changes in WITHOUT.items()}
    found["32-bit elements"] = _means(whole, {})
    published, dark = _means(ran.published, {})[1], found["nothing at rest"]
    return Section(
        title="What makes the difference",
        text=(
            f"The means over the ten networks on `{MACHINE}`, counted by the paper, with one property of the machine changed at"
            f" a time. Without power at rest dp takes {dark[1]:.2f} times the energy of HyPar, on `hmc` {published:.2f}: what HyPar"
            " saves first, DRAM accesses for weights and for words moved, has become cheap. In HyPar's plan of VGG-A they are"
            f" {_dram(ran.same):.0%} of the energy other than at rest, on `hmc` {_dram(ran.published):.0%}; the rest is"
            " arithmetic, registers, array and buffer. Power at rest follows the time of a step, so it"
            f" lifts the ratio to {found['all of it'][1]:.2f}, towards the performance. Elements of 32 bits are two words"
            " each: links and memories carry twice the bytes, the arithmetic takes as long, so communication weighs more."
        ),
        heads=("", "performance, mean", "energy, mean", "W a cube, VGG-A by HyPar"),
        rows=tuple((words, *(f"{number:.2f}" for number in own)) for words, own in found.items()),
    )


def _dram(ran: Evaluation) -> float:
    """Return the part of DRAM accesses in the energy of HyPar's plan of VGG-A, power at rest left out."""
    energy = ran.score("vgg-a", "hypar").energy or {}
    active = {place: own for place, own in energy.items() if place != "static"}
    return (active["memory"] + active["communication"]) / sum(active.values())


def _means(ran: Evaluation, changes: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the mean performance and energy over dp, and the power of a cube under HyPar's plan of VGG-A."""
    found = ran.scores(changes)
    own = found["vgg-a", "hypar"]
    watts = joules(own) / own.time_s / CUBES
    return geometric_mean(speedups(found).values()), geometric_mean(savings(found).values()), watts
