"""Options of several commands, and what they stand for: machines, networks, files and forms of output."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.exceptions import Exit

from hypar.cli import values
from hypar.cli.options import MACHINE, NETWORK, OUTPUT, SEARCH, Argument, Command, Option, Row
from hypar.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hypar.plan.score import Score


class Spec(NamedTuple):
    """A command: what runs it and returns an exit status or None, its arguments, and a function that returns its options."""

    run: Callable[..., Any]
    help: str | None
    arguments: tuple[Argument, ...]
    options: Callable[[], Iterable[Row]]

    def command(self, name: str) -> Command:
        """Return it as click has it."""
        params = [*self.arguments, *map(Option, self.options())]
        return Command(name, callback=self.checked, params=params, help=self.help)

    def checked(self, **given: Any) -> None:
        """Run it, unless two of its options exclude each other."""
        if given.get("as_csv") and given.get("as_json"):
            raise click.UsageError("--csv and --json exclude each other")
        if given.get("fit") and MODEL in self.arguments and given["hardware"] is None:
            raise click.UsageError("--fit needs --hardware")
        raise Exit(int(self.run(**given) or 0))


COMMANDS: dict[str, Spec] = {}
"""The commands by their names."""


def command(
    *arguments: Argument, options: Callable[[], Iterable[Row]] = tuple
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that lists a function as a command of its name."""

    def listed(run: Callable[..., Any]) -> Callable[..., Any]:
        COMMANDS[run.__name__.rstrip("_")] = Spec(run, run.__doc__, arguments, options)
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


CHANGES = Row(
    ("--set", "changes"), MACHINE, "Change one value of the machine, as duplex=half; may be repeated. Names: {names}.",
    "NAME=VALUE", values.read_changes, several=True,
    names=lambda: [*use("machine.changes:change_names")()],
    # A field of several networks or compute models is one form.
    forms=lambda: (*use("machine.changes:CHANGEABLE"), *use("machine.changes:PATTERNS")),
)  # fmt: skip


SAME = ("heading", "help", "metavar", "read", "names", "several")
"""What the options of a request and of a command line both have."""


def asked(*names: str, without: Iterable[str] = (), **own: Mapping[str, Any]) -> list[Row]:
    """Return the options of a request, all or some; ``own`` holds what a command says otherwise of one of them."""
    found: list[Row] = []
    fields = use("plan.request:Request").__dataclass_fields__
    for name, parameter in use("plan.request:PARAMETERS").items():
        if name not in (names or (name,)) or name in without:
            continue
        if name == "solver":
            own = {"solver": {"read": known_solver}, **own}
        same = {field: getattr(parameter, field) for field in SAME}
        file, default = bool(parameter.ending), fields[name].default or None
        row = Row((parameter.flag, name), files=file, default=default, **same)
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


def machine_of(hardware: str | None, changes: Mapping[str, Any], *, needed: bool = False) -> Any:
    """Load the machine, or return None if none is named; one is needed for changes."""
    if hardware is None and (needed or changes):
        where = "hardware" if needed else "--set"
        raise OptionError(where, "no machine is named", "one, as --hardware hmc")
    if hardware is None:
        return None
    return use("machine.load:load_machine")(hardware, changes)


def network_of(model: str, inputs: tuple[str, ...]) -> Any:
    """Load a model, or import the network of another framework."""
    foreign = inputs or ":" in model or ".json" in model
    kind = use("importers.formats:framework_of")(model) if foreign else None
    if kind is None and inputs:
        raise OptionError("--input", f"given for {model}", "none, as a model file says it")
    return use("network.build:load_model")(model) if kind is None else imported(kind, model, inputs).graph()


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


class Study(NamedTuple):
    """A command that makes one result, writes it and shows it.

    Attributes:
        doing: what is said meanwhile.
        of: the module of its document.
        data: the function of that module that returns its data; empty if the result has JSON of its own.
        machine: function that loads the machine; None if the call takes names.
        unfit: function from the result to a line for each plan that exceeds its machine's memory.
    """

    help: str
    argument: Argument
    call: str
    doing: str
    of: str
    data: str
    options: Callable[[], Iterable[Row]]
    machine: Callable[..., Any] | None = None
    unfit: str = ""

    def run(self, **given: Any) -> bool:
        """Run it, and return whether the answer is no."""
        doing, fit = self.doing.format(**given), given.pop("fit", False)
        printed = {name: given.pop(name) for name in ("as_json", "as_csv", "full", "top") if name in given}
        files = {write: given.pop(name, None) for name, write in (("plot", "plot"), ("output", "write"))}
        subject = given.pop(str(self.argument.name))
        if self.machine is not None:
            given["hardware"] = self.machine(given["hardware"], given.pop("changes"))
        with use("reports.terminal:progress_bar")(doing) as progress:
            if "inputs" in given:
                subject = network_of(subject, given.pop("inputs"))
            if self.argument is MODEL:
                given["progress"] = progress
            found = use(self.call)(subject, **given)
        for write, file in files.items():
            if file is not None:
                getattr(found, write)(file)
        wrote(*files.values())
        unfit = use(self.unfit)(found) if self.unfit else ()
        for line in unfit if printed["as_json"] else ():
            use("reports.terminal:warn")(line)
        forms = {form: printed.pop(form) for form in ("as_json", "as_csv") if form in printed}
        document = partial(use(f"reports.of.{self.of}:plugin"), found, **printed)
        show(
            document,
            partial(use(f"reports.of.{self.of}:{self.data}"), found) if self.data else found.to_json,
            **forms,
        )
        return bool(fit and unfit) or not getattr(found, "ok", True)


def studies(**named: Study) -> None:
    """List studies as commands of their names."""
    for name, study in named.items():
        COMMANDS[name] = Spec(study.run, study.help, (study.argument,), study.options)


def wrote(*files: str | None) -> None:
    """Say on stderr what was written."""
    for file in filter(None, files):
        use("reports.terminal:note")(f"wrote {file}")


def show(
    document: Callable[[], Any], data: Callable[[], Any], *, as_json: bool, as_csv: bool = False
) -> None:
    """Print data as JSON or CSV, or a document."""
    if as_json or as_csv:
        print_data(data(), as_csv=as_csv)
    else:
        use("reports.terminal:show_document")(document())


def print_data(data: Any, *, as_csv: bool = False) -> None:
    """Print data as JSON or as CSV, or the text of a file."""
    form = "reports.renderers:csv_text" if as_csv else "files.text:format_json"
    use("reports.terminal:write")(data if isinstance(data, str) else use(form)(data), document=True)


def show_plan(document: Any, layers: int, *, full: bool) -> None:
    """Print the document of a plan."""
    folded = layers > use("reports.words:MOST_ROWS")
    use("reports.terminal:show_document")(document, full=full, folded=folded)


def unfit(score: Score | None, *, fit: bool, as_data: bool) -> bool:
    """Return whether a plan exceeds its machine's memory, if asked to; say so on stderr where stdout carries data."""
    exceeds = score is not None and not score.fits
    if exceeds and as_data:
        use("reports.terminal:warn")(use("reports.words:fit")(score))
    return fit and exceeds
