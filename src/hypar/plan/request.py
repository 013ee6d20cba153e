"""What is asked of a plan: every option once, with its type, its default, and how a command line gives it."""

# Annotations are not postponed here: the parameters are read from them at every start.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Self

from hypar.errors import OptionError, UnknownNameError, shown
from hypar.network.training import OPTIMIZERS, PRECISIONS, RECOMPUTED
from hypar.ops.dims import CUTTABLE
from hypar.plan.parameter import ARRAY, MACHINE, NETWORK, SEARCH, STAGES, Parameter
from hypar.plan.records import BALANCES, CHUNKS, FLUSHES
from hypar.registry import data_names, plugin_names
from hypar.sharding.conventions import BY_LEVELS

BEST, GRAPHS, SHARES = "best", ("contracted", "operators"), ("equal", "linear", "exact", "layers")
"""In place of a number of stages, as many as are fastest; the graphs of a network; the rules for the shares of device groups."""


def read_array(text: str) -> tuple[int | str, ...]:
    """Read ``4x8`` as the ways of each level, ``2xs4x2`` with a number of stages among them; raises ``OptionError``."""
    words = text.split("x")
    try:
        return tuple(f"s{int(word[1:])}" if word.startswith("s") else int(word) for word in words)
    except ValueError:
        staged = any(word.startswith("s") for word in words)
        form = "with a number of stages as 2xs4x2" if staged else "as 4x8 or 16"
        raise OptionError("array", f"found {shown(text)}", f"the ways of each level, {form}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that is asked of a plan but its network; what is None is the strategy's, or the usual.

    Raises ``OptionError`` for a text or a list that is none, and ``UnknownNameError`` for a value of an option with names alone.
    """

    # fmt: off
    levels: Annotated[int | None, Parameter("--levels", ARRAY, "Number of two-way levels.  [default: 4]", "N", int)] = None
    array: Annotated[Sequence[int | str] | None, Parameter("--array", ARRAY, "Ways of each level instead, outermost "
        "first, as 4x8; 2xs4x2 has 4 stages inside the first level.", "WAYS", read_array, between="x")] = None
    batch: Annotated[int | None, Parameter("--batch", NETWORK, "Samples in a mini-batch.  [default: the model's]", "N",
        int)] = None
    strategy: Annotated[str | None, Parameter("--strategy", SEARCH, "Named combination of a space, a cost and a search: "
        "{names}.  [default: hypar; over tokens on a machine fit]", "NAME", names=lambda: plugin_names("strategies"))] = None
    space: Annotated[str | None, Parameter("--space", SEARCH, "Choices to search: one or several of {names}; several "
        "dims at once (batch*height), other dims for some ops (conv:batch linear:mp), or a strategy's name.  "
        "[default: the strategy's]", "DIMS", names=lambda: ("all", *CUTTABLE))] = None
    cost: Annotated[str | None, Parameter("--cost", SEARCH, "Cost to minimise: {names}.  [default: the strategy's]",
        "NAME", names=lambda: plugin_names("costs"))] = None
    inter_weight: Annotated[float | None, Parameter("--inter-weight", SEARCH, "Weight of the communication between layers in "
        "the cost; 0.5 reproduces HyPar's figures.  [default: 1]", "W", float)] = None
    convention: Annotated[str | None, Parameter("--convention", SEARCH, "How bytes are counted: {names}.  [default: the "
        "strategy's for the cost, moved for the score]", "NAME", names=lambda: BY_LEVELS, closed=True)] = None
    mode: Annotated[str | None, Parameter("--mode", SEARCH, "Mode of the cost deepa: exact or serial.", "NAME",
        names=lambda: ("exact", "serial"))] = None
    profile: Annotated[Any, Parameter("--profile", SEARCH, "Measured times for the cost deepa, as written by hypar "
        "profile.", "FILE", ending=".json")] = None
    graph: Annotated[str | None, Parameter("--graph", NETWORK, "Graph of the network: contracted (without pools) or "
        "operators (with them).", "NAME", names=lambda: GRAPHS, closed=True)] = None
    search: Annotated[str | None, Parameter("--search", SEARCH, "Search over the levels: {names}.  [default: the "
        "strategy's]", "NAME", names=lambda: plugin_names("searches"))] = None
    solver: Annotated[str | None, Parameter("--solver", SEARCH, "Solver to use: {names}.  [default: the cheapest exact "
        "one]", "NAME", lambda text: checked("solver", text), lambda: plugin_names("solvers"))] = None
    time_limit: Annotated[float | None, Parameter("--time-limit", SEARCH, "Time for the joint search, after which it answers "
        "with its best plan and a bound.  [default: 60]", "SECONDS", float)] = None
    search_memory: Annotated[float | None, Parameter("--search-memory", SEARCH, "Memory for the tables of the joint search.  "
        "[default: 1e9]", "BYTES", float)] = None
    pins: Annotated[str | Sequence[str], Parameter("--pin pins", SEARCH, "Fix a choice, as fc1=mp or conv*@H2=batch; may "
        "be repeated.", "LAYER[@LEVEL]=CHOICE", several=True)] = ()
    hardware: Annotated[Any, Parameter("--hardware", MACHINE, "Machine to use: {names}, or a hardware file.", "NAME",
        names=lambda: data_names("hardware"), ending=".yaml")] = None
    device_memory: Annotated[str | None, Parameter("--device-memory", MACHINE, "Memory of a device, as 70GB, in place of the "
        "machine's own; the same as --set memory.capacity=.", "BYTES")] = None
    optimizer: Annotated[str, Parameter("--optimizer", MACHINE, "Optimizer, for updates and memory: {names}.", "NAME",
        names=lambda: OPTIMIZERS, closed=True)] = "sgd"
    precision: Annotated[str | None, Parameter("--precision", MACHINE, "Number formats of a step: {names}.  [default: all "
        "as the model file says]", "NAME", names=lambda: PRECISIONS, closed=True)] = None
    zero: Annotated[int | None, Parameter("--zero", MACHINE, "Stage of ZeRO: devices with the same piece of a weight share its "
        "optimizer state (1), its gradient too (2), and the piece itself (3).", "0|1|2|3", int)] = None
    recompute: Annotated[str | None, Parameter("--recompute", MACHINE, "What the backward phase computes again in place of "
        "keeping it: {names}.  [default: none]", "NAME", names=lambda: RECOMPUTED, closed=True)] = None
    shares: Annotated[str | None, Parameter("--shares", MACHINE, "How device groups share the work: equal, linear, "
        "exact, or layers.  [default: the strategy's]", "NAME", names=lambda: SHARES, closed=True)] = None
    stages: Annotated[int | str | None, Parameter("--stages", STAGES, "Number of stages of consecutive layers, each "
        "planned by itself; best: the fastest number over the outermost levels.", "N|best",
        lambda text: text if text == BEST else int(text), lambda: (BEST,), allowed="a whole number, or best")] = None
    schedule: Annotated[str | None, Parameter("--schedule", STAGES, "Order of the stages' work: 1f1b, interleaved, gpipe "
        "or layer-block.  [default: 1f1b]", "NAME", names=lambda: FLUSHES, closed=True)] = None
    microbatches: Annotated[int | None, Parameter("--microbatches", STAGES, "Microbatches in a mini-batch, whose gradients are added "
        "up.  [default: 1; with stages their number, or the next smaller divisor of the batch]", "N", int)] = None
    parts: Annotated[int | None, Parameter("--parts", STAGES, "Parts of the network that each stage works for, in "
        "schedule interleaved.  [default: 2]", "V", int)] = None
    balance: Annotated[str | None, Parameter("--balance", STAGES, "Quantity to minimise in the costliest stage: time, "
        "memory, traffic or macs.  [default: time]", "NAME", names=lambda: BALANCES, closed=True)] = None
    starts: Annotated[str | Sequence[str] | None, Parameter("--starts", STAGES, "First layers of the stages, as "
        "conv1,conv3,fc1, instead of the best partition.", "LAYERS")] = None
    refine: Annotated[bool, Parameter("--refine", SEARCH, "Improve the plan choice by choice by the engine's time; needs "
        "--hardware.", read=bool)] = False
    chunks: Annotated[str | int | None, Parameter("--chunks", STAGES, "Exchange gradients in chunks: best, layers (one "
        "chunk per layer), one, or a number of layers; needs --hardware.", "CHUNKS", names=lambda: CHUNKS)] = None
    # fmt: on

    def __post_init__(self) -> None:
        """Check the options that have names alone, and those that nothing else checks before they are read."""
        for name, value in self.given().items():
            kinds, allowed = _KINDS.get(name, (object, ""))
            if not isinstance(value, kinds):
                raise OptionError(name, f"found {shown(value)}", allowed)
            if name in PARAMETERS and PARAMETERS[name].closed:
                checked(name, value)

    @classmethod
    def of(cls, function: str, given: Mapping[str, Any]) -> Self:
        """Return the request of keyword arguments of a function, which messages name; raises ``UnknownNameError``."""
        for name in given:
            if name not in PARAMETERS:
                raise UnknownNameError("argument", name, sorted(PARAMETERS), function)
        return cls(**given)

    def given(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, as keyword arguments."""
        found = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return {name: own for name, own, usual in found if own is not usual and own not in ((), usual)}

    def command(self) -> list[str]:
        """Return the options that differ from their defaults as the words of a command line."""
        words = [word for name, value in self.given().items() for word in PARAMETERS[name].words(value)]
        changes = getattr(self.hardware, "changes", {})
        return [*words, *(word for name, value in changes.items() for word in ("--set", f"{name}={value}"))]


PARAMETERS: dict[str, Parameter] = {
    field.name: Request.__annotations__[field.name].__metadata__[0]._replace(default=field.default or None)
    for field in fields(Request)
}
"""How a command line gives each option, by the argument of ``plan_model`` that it stands for."""

_KINDS: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(("strategy", "space", "cost", "search", "solver"), ((str,), "a text")),
    "device_memory": ((str,), "a text, as '70 GB'"),
    **dict.fromkeys(("array", "pins"), ((str, list, tuple), "a list")),
    "starts": ((str, list, tuple), "names of layers, as 'conv1,conv3,fc1'"),
}
"""Options whose values nothing else checks before they are read: texts and lists."""


def checked(name: str, value: str) -> str:
    """Check the value of an option that has names alone, and return it; raises ``UnknownNameError``."""
    allowed = tuple(PARAMETERS[name].names())
    if not isinstance(value, str) or value not in allowed:
        raise UnknownNameError(name, str(value), allowed)
    return value
