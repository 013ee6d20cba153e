"""The file of a certificate."""

# Annotations are not postponed here: pydantic would parse the text of each one at every start.

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from hypar.errors import PlanError, Where, field_name, shown
from hypar.files.json_file import format_json, read_json
from hypar.files.record import Record
from hypar.files.text import write_text
from hypar.files.validation import validated
from hypar.sharding.tree import Amount

ENDING = ".certificate.json"
"""How the name of a certificate beside its plan ends."""


class Raised(Record):
    """What a block costs in one state of its two ends, where that is more than counts alone say.

    Attributes:
        pivot: how often the pivot takes each of its options.
        port: the same of the port.
        bytes: the least bytes of the layers between them, or as many as no plan of the given cost has room for.
    """

    pivot: list[int]
    port: list[int]
    bytes: Amount


class Block(Record):
    """Layers between a layer and the next one of a tree, which are a forest without one of these two.

    Attributes:
        pivot: this one; the other is the port.
        inner: each layer between them with the next one towards the root of its tree, the port or another layer, outer layers first; nothing
            after a root.
        raised: the states of both ends whose cost is more than counts alone say.
    """

    pivot: str
    inner: list[Annotated[list[str | None], Field(min_length=2, max_length=2)]]
    raised: list[Raised]


class Message(Record):
    """What a layer and all layers behind it cost at least, for each state of the next layer of the tree.

    Attributes:
        layer: the layer.
        to: the next layer towards the root.
        block: the layers between the two; None if there are none.
        bytes: the least bytes for each state of that layer which is left.
    """

    layer: str
    to: str
    block: Block | None = None
    bytes: Annotated[list[Amount], Field(min_length=1)]


class Floor(Record):
    """The least bytes of the tensors between two layers that a tree leaves out."""

    layers: Annotated[list[str], Field(min_length=2, max_length=2)]
    bytes: Amount


class Round(Record):
    """A spanning tree, or forest, of the layers, with the bound that it gives.

    Attributes:
        messages: one for each layer but the roots, those of outer layers first.
        floors: one for each other pair of layers with tensors between them.
        bound: the least bytes of any plan that has only states which are left.
    """

    messages: list[Message]
    floors: list[Floor]
    bound: Amount


class Certificate(Record):
    """Numbers from which the lower bound of a plan's volume follows.

    Attributes:
        model: digest of the network.
        batch: samples of a mini-batch.
        space: the choices that were allowed.
        array: the ways of each level.
        cost: bytes of the plan.
        rounds: the rounds; each leaves out states that no plan of this cost has.
    """

    schema_: Literal["hypar.certificate/1"] = Field(default="hypar.certificate/1", alias="schema")
    model: str
    batch: Annotated[int, Field(ge=1)]
    space: str
    array: list[Annotated[int, Field(ge=2)]]
    cost: Amount
    rounds: Annotated[list[Round], Field(min_length=1)]

    def to_json(self) -> str:
        """Return the text of the file."""
        return format_json(self.model_dump(mode="json", by_alias=True)) + "\n"

    def write(self, file: str | Path) -> None:
        """Write the certificate whole or not at all.

        Raises:
            DocumentError: the folder is missing or cannot be written to.
        """
        write_text(Path(file), self.to_json())


def beside(plan: str | Path) -> Path:
    """Return where the certificate of a plan file lies."""
    return Path(plan).with_suffix(ENDING)


def read_certificate(file: str | Path) -> Certificate:
    """Read a certificate.

    Raises:
        InputError: it is missing, damaged, or of another schema.
    """
    path = Path(file)
    data = read_json(path)
    if not isinstance(data, dict):
        raise PlanError(str(path), f"found {shown(data)}", "an object")

    def place(where: Where) -> str:
        return f"{path}: {field_name(where)}" if where else str(path)

    found: Certificate = validated(Certificate, data, place=place, error=PlanError)
    return found
