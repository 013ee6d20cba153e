"""Options of several commands, and what they stand for: machines, networks, files and forms of output."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.exceptions import Exit

from hypar.cli import values
from hypar.cli.options import MACHINE, NETWORK, OUTPUT, SEARCH, Argument, Command, Option, Row
from hypar.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.score import Score


class Spec(NamedTuple):
    """A command: what runs it, its arguments, and a function that returns its options."""

    run: Callable[..., None]
    arguments: tuple[Argument, ...]
    options: Callable[[], Iterable[Row]]

    def command(self, name: str) -> Command:
        """Return it as click has it."""
        params = [*self.arguments, *map(Option, self.options())]
        return Command(name, callback=self.run, params=params, help=self.run.__doc__)


COMMANDS: dict[str, Spec] = {}
"""The commands by their names."""


def command(
    *arguments: Argument, options: Callable[[], Iterable[Row]] = tuple
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that lists a function as a command of its name."""

    def listed(run: Callable[..., None]) -> Callable[..., None]:
        COMMANDS[run.__name__.rstrip("_")] = Spec(run, arguments, options)
        return run

    return listed


MODEL, PLAN = Argument("model", "models"), Argument("plan")
AS_JSON = Row(("--json", "as_json"), OUTPUT, "Print JSON instead of a table.", read=bool)
AS_CSV = Row(("--csv", "as_csv"), OUTPUT, "Print CSV instead of a table.", read=bool)
FULL = Row(("--full",), OUTPUT, "Show every layer of a large network, and notes on details.", read=bool)
FIT = Row(("--fit",), OUTPUT, "Exit 1 if a plan does not fit the memory of its machine.", read=bool)
PLOT = Row(("--plot",), OUTPUT, "Write a plot, as .png, .svg or .pdf.", "FILE", values.plot)
SAVE = Row(("-o", "--output"), OUTPUT, "Write the plan to a file.", "FILE", values.writable)
TRACE = Row(("--trace",), OUTPUT, "Write a Chrome trace for Perfetto.", "FILE", values.writable)
MODEL_FILE = Row(("--model",), NETWORK, "Model to use if the plan's model name is not found.", "MODEL",
                 kind="models", files=True)  # fmt: skip
INPUTS = Row(("--input", "inputs"), NETWORK,
             "Shape of one sample of each argument of my_net:build, as 3x224x224, or 128:int64 for tokens.",
             "SIZES", several=True)  # fmt: skip
HARDWARE_FILE = Row(("--hardware",), MACHINE, "Hardware file to use if the name in the plan's score is not found.",
                    "FILE", kind="hardware", files=True)  # fmt: skip
PROFILE_FILE = Row(("--profile",), SEARCH, "Measured times to use if the name in the plan's cost is not found.",
                   "FILE")  # fmt: skip


def use(path: str) -> Any:
    """Return ``module:name`` of hypar, imported when it is used: importing all that commands need takes a second."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(f"hypar.{module}"), name)


def change_names() -> tuple[str, ...]:
    """Return the values of a machine that may be changed."""
    found: tuple[str, ...] = use("machine.changes:change_names")()
    return found


def change_forms() -> tuple[str, ...]:
    """Return the values of a machine that may be changed, a field of several networks or compute models as one form."""
    return (*use("machine.changes:CHANGEABLE"), *use("machine.changes:PATTERNS"))


CHANGES = Row(("--set", "changes"), MACHINE,
              "Change one value of the machine, as duplex=half; may be repeated. Names: {names}.", "NAME=VALUE",
              values.read_changes, change_names, change_forms, several=True)  # fmt: skip


def asked(*names: str, without: Iterable[str] = (), **own: Mapping[str, Any]) -> list[Row]:
    """Return the options of a request, all or some; ``own`` holds what a command says otherwise of one of them."""
    found: list[Row] = []
    fields = use("plan.request:Request").__dataclass_fields__
    for name, parameter in use("plan.request:PARAMETERS").items():
        if name not in (names or (name,)) or name in without:
            continue
        if name == "solver":
            own = {"solver": {"read": known_solver}, **own}
        same = {
            field: getattr(parameter, field)
            for field in ("heading", "help", "metavar", "read", "names", "several")
        }
        row = Row(
            (parameter.flag, name), files=bool(parameter.ending), default=fields[name].default or None, **same
        )
        found.append(row._replace(**own.get(name, {})))
        if name == "hardware" and "changes" not in without:
            found.append(CHANGES)
    return found


def known_solver(text: str) -> str:
    """Check the name of a solver: others than these serve inside searches and tests."""
    names = use("plan.request:solver_names")()
    if text not in names:
        raise UnknownNameError("solver", text, names)
    return text


def counted(default: str) -> dict[str, str]:
    """Return what the option ``--convention`` says of its default."""
    return {"help": f"How bytes are counted: {{names}}.  [default: {default}]"}


def machine_of(
    hardware: str | None, changes: Mapping[str, Any], *, needed: bool = False
) -> Machine | HeterogeneousMachine | None:
    """Load the machine, or return None if none is named.

    Raises:
        OptionError: it is needed and none is named, or changes are given without one.
    """
    if hardware is None:
        if needed or changes:
            where = "hardware" if needed else "--set"
            raise OptionError(where, "no machine is named", "one, as --hardware hmc")
        return None
    found: Machine | HeterogeneousMachine = use("machine.load_heterogeneous:load_hardware")(hardware, changes)
    return found


def network_of(model: str, inputs: tuple[str, ...]) -> LayerGraph:
    """Load a model, or import the network of another framework.

    Raises:
        InputError: it cannot be read.
    """
    kind = (
        use("importers.formats:framework_of")(model) if inputs or ":" in model or ".json" in model else None
    )
    if kind is None and inputs:
        raise OptionError("--input", f"given for {model}", "none, as a model file says it")
    own = use("network.build:load_model")(model) if kind is None else imported(kind, model, inputs).graph()
    found: LayerGraph = own
    return found


def imported(kind: str, network: str, inputs: tuple[str, ...], **own: Any) -> Any:
    """Import a network, and say on stderr how much of it is recognised."""
    with use("reports.terminal:progress_bar")(f"importing {network}"):
        sizes = [values.read_sizes(text) for text in inputs]
        tokens = frozenset(number for number, text in enumerate(inputs) if text.endswith(values.WHOLE))
        found = use("importers.formats:import_network")(kind, network, sizes, tokens=tokens, **own)
        found.graph()
    for line in (str(found.coverage), *found.notes):
        use("reports.terminal:note")(line)
    return found


def studied(study: str, doing: str, model: str, inputs: tuple[str, ...], **given: Any) -> Any:
    """Return the result of a study of a model, and write its plot if asked to."""
    plot = given.pop("plot", None)
    with use("reports.terminal:progress_bar")(doing) as progress:
        found = use(study)(network_of(model, inputs), progress=progress, **given)
    if plot is not None:
        found.plot(plot)
    wrote(plot)
    return found


def wrote(*files: str | None) -> None:
    """Say on stderr what was written."""
    for file in filter(None, files):
        use("reports.terminal:note")(f"wrote {file}")


def show(
    found: Any, of: str, data: str, *more: Any, as_json: bool, as_csv: bool = False, **shown: Any
) -> None:
    """Print a result as JSON or CSV by a function of its module ``of`` in ``reports.of``, or as its document."""
    if as_json or as_csv:
        print_rows(use(f"reports.of.{of}:{data}")(found), as_csv=as_csv)
    else:
        use("reports.terminal:show_document")(use(f"reports.of.{of}:plugin")(found, *more, **shown))


def print_rows(rows: Any, *, as_csv: bool = False) -> None:
    """Print rows as JSON or as CSV."""
    if as_csv:
        use("reports.terminal:write")(use("reports.tables:csv_text")(rows), document=True)
    else:
        use("reports.terminal:write_json")(rows)


def show_plan(document: Any, layers: int, *, full: bool) -> None:
    """Print the document of a plan."""
    folded = layers > use("reports.words:MOST_ROWS")
    use("reports.terminal:show_shortened")(document, full=full, folded=folded)


def exit_if_unfit(score: Score | None, *, fit: bool, as_data: bool) -> None:
    """Exit 1 for a plan that exceeds its machine's memory if asked to; say so on stderr where stdout carries data."""
    if score is None or score.fits:
        return
    if as_data:
        use("reports.terminal:warn")(use("reports.words:unfit")(score), to_stderr=True)
    if fit:
        raise Exit(1)


def require_one_form(as_csv: bool, as_json: bool) -> None:
    """Refuse CSV and JSON together."""
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")


def require_hardware(hardware: str | None, *, fit: bool) -> None:
    """Refuse ``--fit`` without a machine."""
    if fit and hardware is None:
        raise click.UsageError("--fit needs --hardware")
