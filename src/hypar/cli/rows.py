"""The table of commands, their options under the headings of a help page, and how results are written and shown."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit
from click.formatting import measure_table
from click.shell_completion import CompletionItem

from hypar.errors import OptionError, shown, suggestion
from hypar.files.text import require_writable
from hypar.plan.parameter import ARRAY, HEADINGS, MACHINE, NETWORK, OTHER, OUTPUT, SEARCH, Parameter
from hypar.registry import data_names

if TYPE_CHECKING:
    from hypar.plan.records import Score

    Options = Callable[[], Iterable[Parameter]]

WIDEST, MOST_NUMBERS = 30, 10_000
"""Characters of an option that its help still stands beside, as click has it; and the last number of a range, at most."""

EXCLUSIVE = ("csv", "json"), ("validate", "model"), ("yaml", "json"), ("yaml", "validate"), ("yaml", "model")
"""Options that exclude each other."""


def _completing(row: Parameter) -> Callable[..., list[CompletionItem]]:
    """Return the function of the names that begin with what was typed, or of files if there is none and may be one."""

    def complete(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
        before, comma, _ = typed.rpartition(",") if row.listed else ("", "", typed)
        names = (before + comma + name for name in (data_names(row.kind) if row.kind else row.names()))
        found = [CompletionItem(name) for name in names if name.startswith(typed)]
        files = row.ending or row.kind or row.metavar in {"FILE", "PATH"}
        return found or ([CompletionItem(typed, type="file")] if files else [])

    return complete


class Option(click.Option):
    """An option of a command."""

    def __init__(self, row: Parameter) -> None:
        self.row, self.heading, read = row, row.heading, row.read
        plain = not row.listed and (read in {str, int, float, bool} or isinstance(read, click.ParamType))
        file = click.Path(dir_okay=False, allow_dash=True) if row.metavar == "FILE" else None
        how: dict[str, Any] = {"type": row.read if plain else file, "multiple": row.several}
        if row.read is bool:
            how = {"is_flag": True, "default": False}
        elif row.alone is not None:
            how |= {"is_flag": False, "flag_value": row.alone}
        if row.default is not None:
            how |= {"default": row.default, "show_default": "[default" not in row.help}
        how |= {"required": row.required, "metavar": row.metavar, "help": row.help}
        how |= {"callback": None if plain else self._read, "shell_complete": _completing(row)}
        super().__init__(row.flags.split(), **how)

    def _read(self, _ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        if value is None:
            return None
        if self.row.several:
            return self.row.read(value) if value else {}
        return tuple(map(self._one, value.split(","))) if self.row.listed else self._one(value)

    def _one(self, text: str) -> Any:
        """Return what the row reads of a text, or the text itself if it only checks it."""
        try:
            found = self.row.read(text)
        except ValueError:
            hint = suggestion(text, self.row.names())
            raise OptionError(str(self.name), f"found {shown(text)}", self.row.allowed, hint) from None
        return text if found is None else found

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the flags and the help text with the names in it."""
        if "{names}" in self.row.help:
            self.help = self.row.help.replace("{names}", ", ".join((self.row.forms or self.row.names)()))
        return super().get_help_record(ctx)


def argument(name: str, kind: str = "", **named: Any) -> click.Argument:
    """Return an argument that is a file, or the bare name of a ``kind`` of data file, as of ``models``."""
    row = Parameter(name, OTHER, "", "FILE", kind=kind)
    return click.Argument([name], shell_complete=_completing(row), **named)


class Command(click.Command):
    """A command whose callback returns an exit status or None; its ``options`` are made when they are needed, and stand under headings."""

    def __init__(self, options: Options, **named: Any) -> None:
        super().__init__(**named)
        self.options = options

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return its arguments and options."""
        self.params += map(Option, self.options())
        self.options = tuple
        return super().get_params(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, heading by heading, the help texts of all below each other."""
        found: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
        for param in self.get_params(ctx):
            record = None if isinstance(param, click.Argument) else param.get_help_record(ctx)
            if record is not None:
                found[getattr(param, "heading", OTHER)].append(record)
        width = measure_table([row for rows in found.values() for row in rows if len(row[0]) <= WIDEST])[0]
        for heading, rows in found.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl([(f"{name:<{width}}", text) for name, text in rows], col_max=width)

    def invoke(self, ctx: click.Context) -> None:
        """Run it, unless two of its options exclude each other; the memory of devices is one of the machine's changes."""
        given = ctx.params
        for one, other in EXCLUSIVE:
            if all(given.get(name) or given.get(f"as_{name}") for name in (one, other)):
                raise click.UsageError(f"--{one} and --{other} exclude each other", ctx)
        if given.get("fit") and MODEL in self.params and given["hardware"] is None:
            raise click.UsageError("--fit needs --hardware", ctx)
        if (memory := given.pop("device_memory", None)) is not None:
            if given["hardware"] is None:
                raise OptionError("device-memory", "no machine is named", "one, as --hardware hmc")
            given["changes"] = {**given["changes"], "memory.capacity": memory}
        raise Exit(int(super().invoke(ctx) or 0))


COMMANDS: dict[str, click.Command] = {}
"""The commands by their names."""


def command(*arguments: click.Argument, options: Options = tuple) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that lists a function as a command of its name."""

    def listed(run: Callable[..., Any]) -> Callable[..., Any]:
        name = run.__name__.rstrip("_")
        COMMANDS[name] = Command(options, name=name, callback=run, params=[*arguments], help=run.__doc__)
        return run

    return listed


def use(path: str) -> Any:
    """Return ``module:name`` of hypar, imported when it is used: importing all that commands need takes a second."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(f"hypar.{module}"), name)


def later(path: str) -> Callable[..., Any]:
    """Return a function that calls ``module:name`` of hypar."""
    return lambda *given: use(path)(*given)  # noqa: PLW0108 (imported when it is called)


def read_changes(texts: Sequence[str]) -> dict[str, Any]:
    """Read ``duplex=half`` as a hardware file would give it."""
    return dict(map(use("machine.load:parse_change"), texts))


def read_axes(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Read ``duplex=full,half`` as the values of one axis."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        found.setdefault(name, []).extend(read_changes([f"{name}=[{listed}]" if equals else text])[name])
    return found


def read_numbers(text: str) -> tuple[int, ...]:
    """Read ``1,2,4`` or ``0..6``; of a range at most ``MOST_NUMBERS``."""
    first, dots, last = text.partition("..")
    if dots:
        return tuple(range(int(first), min(int(last), MOST_NUMBERS) + 1))
    return tuple(map(int, text.split(",")))


def read_share(text: str) -> float:
    """Read ``1e-6`` or ``1%`` as a part of 1."""
    number, percent, rest = text.partition("%")
    return float(number) / (100 if percent and not rest.strip() else 1)


# fmt: off
MODEL, PLAN = argument("model", "models"), argument("plan")
NUMBERS = {"read": read_numbers, "allowed": "numbers as 1,2,4 or 0..6", "metavar": "NUMBERS"}
AS_JSON = Parameter("--json as_json", OUTPUT, "Print JSON instead of a table.", read=bool)
AS_CSV = Parameter("--csv as_csv", OUTPUT, "Print CSV instead of a table.", read=bool)
FULL = Parameter("--full", OUTPUT, "Show every layer of a large network, and notes on details.", read=bool)
FIT = Parameter("--fit", OUTPUT, "Exit 1 if a plan does not fit the memory of its machine.", read=bool)
PLOT = Parameter("--plot", OUTPUT, "Write a plot, as .png, .svg or .pdf.", "FILE", later("reports.plots:require_plot"))
SAVE = Parameter("-o --output", OUTPUT, "Write the plan to a file.", "FILE", require_writable)
MODEL_FILE = Parameter("--model", NETWORK, "Model to use if the plan's model name is not found.", "MODEL", kind="models")
INPUTS = Parameter("--input inputs", NETWORK, "Shape of one sample of each argument of my_net:build, as 3x224x224, or "
    "128:int64 for tokens.", "SIZES", several=True)
SEQUENCE = Parameter("--sequence", NETWORK, "Positions of a sample; for config.json.  [default: the most that it allows]",
    "N", int)
HARDWARE_FILE = Parameter("--hardware", MACHINE, "Hardware file to use if the name in the plan's score is not found.",
    "FILE", kind="hardware")
PROFILE_FILE = Parameter("--profile", SEARCH, "Measured times to use if the name in the plan's cost is not found.", "FILE")
CHANGES = Parameter("--set changes", MACHINE, "Change one value of the machine, as duplex=half; may be repeated. "
    "Names: {names}.", "NAME=VALUE", read_changes, lambda: [*use("machine.schema:change_names")()], several=True,
    # A field of several networks or compute models is one form.
    forms=lambda: (*use("machine.schema:CHANGEABLE"), *use("machine.schema:PATTERNS")))
# fmt: on


def asked(*names: str, without: Iterable[str] = (), **own: Mapping[str, Any]) -> list[Parameter]:
    """Return the options of a request, all or some; ``own`` holds what a command says otherwise of one of them."""
    found: list[Parameter] = []
    for name, parameter in use("plan.request:PARAMETERS").items():
        if name in (names or (name,)) and name not in without:
            found.append(parameter._replace(**own.get(name, {})))
            found += [CHANGES] * (name == "hardware" and "changes" not in without)
    return found


def counted(default: str) -> dict[str, str]:
    """Return what the option ``--convention`` says of its default."""
    return {"help": f"How bytes are counted: {{names}}.  [default: {default}]"}


def doing(what: str) -> Any:
    """Show on stderr what is done inside."""
    return use("reports.terminal:progress_bar")(what)


def machine_of(hardware: str | None, changes: Mapping[str, Any], *, needed: bool = False) -> Any:
    """Load the machine, or return None if none is named; one is needed for changes."""
    if hardware is None and (needed or changes):
        raise OptionError("hardware" if needed else "--set", "no machine is named", "one, as --hardware hmc")
    return None if hardware is None else use("machine.load:load_machine")(hardware, changes)


def network_of(model: str, inputs: tuple[str, ...], sequence: int | None) -> Any:
    """Load a model, or import the network of another framework."""
    told = inputs or sequence is not None or ":" in model or model.endswith(".py")
    if told or use("importers.formats:framework_of")(model) == "config":
        return imported(model, inputs, sequence=sequence).graph()
    return use("network.graph:load_model")(model)


def imported(network: str, inputs: tuple[str, ...], framework: str | None = None, **own: Any) -> Any:
    """Import a network, and say on stderr how much of it is recognised."""
    with doing(f"importing {network}"):
        found = use("importers.formats:imported")(network, inputs, framework, **own)
        found.graph()
    for line in (str(found.coverage), *found.notes):
        use("reports.terminal:note")(line)
    return found


def wrote(*files: str | None) -> None:
    """Say on stderr what was written."""
    for file in filter(None, files):
        use("reports.terminal:note")(f"wrote {file}")


def show(of: str, *found: Any, data: Any = "", as_json: bool, as_csv: bool = False, **how: Any) -> None:
    """Print a result as JSON or CSV, or the document that the function ``of`` makes; ``data`` may be a function's name too."""
    if not (as_json or as_csv):
        use("reports.terminal:show_document")(use(of)(*found, **how))
        return
    if isinstance(data, str):
        data = use(f"{of.partition(':')[0]}:{data}")(*found) if data else found[0].to_json()
    print_data(data, as_csv=as_csv)


def print_data(data: Any, *, as_csv: bool = False) -> None:
    """Print data as JSON or as CSV, or the text of a file."""
    form = "reports.renderers:csv_text" if as_csv else "files.text:format_json"
    use("reports.terminal:write")(data if isinstance(data, str) else use(form)(data), document=True)


def unfit(scores: Mapping[str, Score | None], *, fit: bool, as_data: bool) -> bool:
    """Say on stderr which plans exceed their machine's memory, where stdout carries data; return whether that is the answer."""
    own = {name: score for name, score in scores.items() if score is not None and not score.fits}
    lines = [f"{name} {use('reports.words:fit')(score)}".lstrip() for name, score in own.items()]
    for line in lines if as_data else ():
        use("reports.terminal:note")(line, "bold red")
    return bool(fit and lines)


def study(
    name: str, text: str, argument: click.Argument, call: str, what: str, of: str, data: str,
    options: Options, *, loads: bool = False,
) -> None:  # fmt: skip
    """List a command that makes one result, writes it and shows it; ``what`` is said meanwhile.

    ``of`` is the module of its document and ``data`` the function there that returns its data, empty if the result has JSON of
    its own; ``loads`` says whether the call takes a machine, not names.
    """

    def run(*, fit: bool = False, **given: Any) -> bool:
        meanwhile, subject = what.format(**given), given.pop(str(argument.name))
        shown = {name: given.pop(name) for name in ("full", "top", "as_json", "as_csv") if name in given}
        files = {write: given.pop(name, None) for name, write in (("plot", "plot"), ("output", "write"))}
        if loads:
            named = given["hardware"], given.pop("changes")
            given["hardware"] = machine_of(*named, needed="vary" in given)
        with doing(meanwhile):
            if "inputs" in given:
                subject = network_of(subject, given.pop("inputs"), given.pop("sequence"))
            found = use(call)(subject, **given)
        for write, file in files.items():
            if file is not None:
                getattr(found, write)(file)
        wrote(*files.values())
        show(f"reports.of.{of}:plugin", found, data=data, **shown)
        too_large = unfit(getattr(found, "scores", {}), fit=fit, as_data=shown["as_json"])
        return too_large or not getattr(found, "ok", True)

    COMMANDS[name] = Command(options, name=name, callback=run, params=[argument], help=text)


# fmt: off
study("compare",
    "Plan MODEL by several strategies and show them side by side, relative to dp.",
    MODEL, "studies.grid:compare_strategies", "comparing", "runs", "comparison_data",
    loads=True, options=lambda: [
    INPUTS, SEQUENCE, *asked(
        strategy={"flags": "--strategy strategies", "several": True,
                  "help": "Strategy to compare with dp; may be repeated: {names}.  [default: all with dp's cost]"},
        convention=counted("moved"),
    ),
    FIT, AS_JSON,
])
study("sweep",
    "Plan and score MODEL for every combination of arrays, batches, strategies and machines.",
    MODEL, "studies.grid:sweep_model", "sweeping", "runs", "rows_of", options=lambda: [
    INPUTS, SEQUENCE, *asked(
        without=["changes"],
        hardware={"required": True, "metavar": "NAMES", "listed": True,
                  "help": "Machines, as hmc or hmc,my.yaml: {names}, and hardware files."},
        levels={**NUMBERS, "help": "Numbers of two-way levels, as 0..6; 0 means one device.  [default: 4]"},
        array={"listed": True, "metavar": "ARRAYS",
               "help": "Arrays instead, each by the ways of its levels, outermost first, as 4,16,2xs4x2."},
        batch={**NUMBERS, "help": "Samples in a mini-batch, as 32,4096.  [default: the model's]"},
        strategy={"default": "dp,hypar", "metavar": "NAMES", "listed": True,
                  "help": "Strategies, as dp,hypar: {names}."},
        convention=counted("moved"),
    ),
    CHANGES._replace(flags="--vary changes", read=read_axes, metavar="NAME=VALUES",
        help="Values of the machine to vary, as topology=h_tree,torus; may be repeated. Names: {names}."),
    Parameter("--scale", MACHINE, "Give a machine with one network as many devices as the levels need.", read=bool),
    PLOT, AS_CSV, AS_JSON,
])
study("explore",
    "Score every combination of some choices in a plan of MODEL, the others fixed; the fastest come first.",
    MODEL, "studies.alternatives:explore_model", "exploring", "runs", "rows_of",
    loads=True, options=lambda: [
    Parameter("--vary", SEARCH, "Layers and levels whose choices vary, as fc1, conv*@H2 or *@H1; may be repeated.",
        "LAYER[@LEVEL]", several=True, required=True),
    INPUTS, SEQUENCE, *asked(
        strategy={"default": "hypar", "help": "Strategy whose plan gives the space and the fixed choices: {names}."},
        convention=counted("moved"),
    ),
    Parameter("--top", OUTPUT, "Rows of the table.", "N", click.IntRange(min=1), default=10),
    PLOT, AS_CSV, AS_JSON,
])
study("profile",
    "Measure with PyTorch, on this machine, the time of a device's shard of each layer of MODEL under each choice.",
    MODEL, "studies.profile:profile_model", "measuring", "catalogue", "", options=lambda: [
    Parameter("--ways", ARRAY, "Devices of the level.", "N", int, default=16),
    *asked("batch", "space", space={"help": "Choices to measure: one or several of {names}, as --space of hypar plan.  "
        "[default: those of the strategy deepa]"}),
    Parameter("--repeats", MACHINE, "Measurements of every shard; the shortest time counts.", "N", int, default=3),
    SAVE._replace(help="Write the times to a file."), AS_JSON,
])
study("verify",
    """Run a step of a stored PLAN on simulated devices; exit 1 if its numbers, bytes, memory or results are wrong, 3 on an error.

    The numbers must be those of one device, every level must move the bytes that are counted there, no device may hold more than
    the score says, and the plan's cost and score must be those of its choices.
    """,
    PLAN, "studies.verify:verify_plan", "verifying {plan}", "verification", "verification_data", options=lambda: [
    MODEL_FILE,
    *asked("batch", batch={"help": "Samples in the mini-batch.  [default: the plan's; with --shrink the fewest]"}),
    Parameter("--shrink", NETWORK, "Divide channels, image and mini-batch by powers of two; even cuts stay even.", read=bool),
    HARDWARE_FILE,
    *asked("convention", convention={"names": lambda: use("sharding.conventions:CONVENTIONS"),
        "help": "What becomes of partial sums: {names}.  [default: as the plan's cost counts; moved for paper]"}),
    Parameter("--count", OUTPUT, "Count the bytes alone, and run nothing.", read=bool),
    FULL._replace(help="Show each transfer, with a row for each level that it crosses."), AS_JSON,
])
# fmt: on
