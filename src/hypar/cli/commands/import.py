"""``hypar import``."""

# ruff: noqa: N999 (the name of a command is that of its file, and nothing imports it by a statement)

from __future__ import annotations

import click

from hypar.cli.commands.base import writable
from hypar.cli.options import NETWORK, OUTPUT, Command, option
from hypar.errors import OptionError, shown
from hypar.importers.formats import FORMATS, import_network
from hypar.reports.terminal import note, progress_bar, write

WHOLE = ":int64"
"""Behind the shape of an input of whole numbers, as tokens are."""


def read_sizes(text: str) -> tuple[int, ...]:
    """Read ``3x224x224``, or ``128:int64`` for whole numbers, as the shape of one sample.

    Raises:
        OptionError: it is not of that form.
    """
    parts = text.removesuffix(WHOLE).split("x")
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 2**24 for part in parts):
        allowed = "the shape of a sample, as 3x224x224 or 784, or 128:int64 for tokens"
        raise OptionError("--input", f"found {shown(text)}", allowed)
    return tuple(map(int, parts))


@click.command("import", cls=Command)
@click.argument("framework", type=click.Choice(FORMATS))
@click.argument("network")
@option(
    "--input",
    "inputs",
    heading=NETWORK,
    multiple=True,
    metavar="SIZES",
    help="Shape of one sample of each argument, as 3x224x224, or 128:int64 for tokens; for torch and jax.",
)
@option("--batch", heading=NETWORK, type=int, metavar="N",
        help="Samples in a mini-batch of the model file.  [default: 256]")  # fmt: skip
@option("--sequence", heading=NETWORK, type=int, metavar="N",
        help="Positions of a sample; for config.  [default: the most that it allows]")  # fmt: skip
@option(
    "--partial",
    heading=NETWORK,
    is_flag=True,
    help="Accept a network of which less than 99 % of the operations or parameters is recognised.",
)
@option(
    "-o",
    "--output",
    heading=OUTPUT,
    type=click.Path(dir_okay=False),
    callback=writable,
    help="Write the model file instead of printing it.",
)
def command(
    framework: str,
    network: str,
    inputs: tuple[str, ...],
    batch: int | None,
    sequence: int | None,
    output: str | None,
    *,
    partial: bool,
) -> None:
    """Write the model file of a NETWORK of another framework: a PyTorch module, an ONNX file, a JAX function or a config.

    NETWORK is the path of an ONNX file or of a config.json of Hugging Face (gpt2, llama, mistral, qwen2, bert), or my_module:build, a function without arguments: for torch it returns a module,
    for jax a function of parameters and inputs, and the parameters. The module is run, as python -m my_module would run it,
    with all that it does; run only what you trust. A file is only read. No weights are read or kept.
    """
    with progress_bar(f"importing {network}"):
        sizes = [read_sizes(text) for text in inputs]
        tokens = frozenset(number for number, text in enumerate(inputs) if text.endswith(WHOLE))
        found = import_network(
            framework, network, sizes, tokens=tokens, batch=batch, sequence=sequence, partial=partial
        )
        found.graph()
    note(str(found.coverage))
    for line in found.notes:
        note(line)
    if output is None:
        write(found.text(), document=True)
    else:
        found.write(output)
        note(f"wrote {output}")
