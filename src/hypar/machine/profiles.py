"""Table of measured times of one device, for each layer's shard under each choice of a level.

``hypar profile`` writes it; the cost ``deepa`` reads it in place of a machine's own computation. Described in
``docs/profiles.md``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from hypar.errors import ProfileError, field_name, shown, suggestion
from hypar.files.record import Record
from hypar.files.text import format_json, read_json, write
from hypar.files.validation import validated
from hypar.sharding.dims import grid_word

if TYPE_CHECKING:
    from hypar.errors import Where

Seconds = Annotated[int | float, Field(ge=0, le=1e9)]


class ProfiledModel(Record):
    """The measured network and its mini-batch."""

    name: str
    digest: str
    batch: Annotated[int, Field(ge=1)]


class Profile(Record):
    """Measured times.

    Attributes:
        schema_: version of the format.
        name: the file's name without its ending; not part of the file.
        model: the network.
        device: the device measured.
        ways: the devices of the level whose choices were measured.
        seconds: time of the three phases of the fullest device's shard, for each layer and choice, as ``n4 c1 h2 w2``.
    """

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["hypar.profile/1"] = Field(default="hypar.profile/1", alias="schema")
    name: str = Field(default="profile", exclude=True)
    model: ProfiledModel
    device: str
    ways: Annotated[int, Field(ge=1)]
    seconds: Annotated[dict[str, Annotated[dict[str, Seconds], Field(min_length=1)]], Field(min_length=1)]

    @property
    def digest(self) -> str:
        """Hash of the table's content."""
        return "sha256:" + hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the file's text."""
        return format_json(self.model_dump(mode="json", by_alias=True)) + "\n"

    def write(self, file: str | Path) -> None:
        """Write the table whole or not at all.

        Raises:
            DocumentError: the folder is missing or cannot be written to.
        """
        write(Path(file), self.to_json())

    def of(self, layer: str, degrees: dict[str, int]) -> float:
        """Return the seconds that one device takes for a layer's shard.

        Args:
            layer: the layer's name.
            degrees: the degree of each dim.

        Raises:
            ProfileError: the shard was not measured.
        """
        table, word = self.seconds.get(layer), grid_word(degrees)
        if table is None:
            hint = suggestion(layer, self.seconds)
            raise ProfileError(f"profile {self.name!r}: seconds", f"no layer {layer!r}", hint=hint)
        if word not in table:
            place = f"profile {self.name!r}: seconds.{layer}"
            raise ProfileError(
                place, f"no {word!r}", hint="measure it with hypar profile, its --space as here"
            )
        return table[word]

    def require(self, name: str, digest: str, batch: int, array: tuple[int, ...]) -> None:
        """Refuse a network, mini-batch or array other than the one measured.

        Raises:
            ProfileError: one of them differs.
        """
        place = f"profile {self.name!r}"
        if (name, digest) != (self.model.name, self.model.digest):
            found = f"measured {self.model.name!r}, not this {name!r}"
            raise ProfileError(f"{place}: model", found, hint="measure it with hypar profile")
        if batch != self.model.batch:
            raise ProfileError(f"{place}: model.batch", f"found {self.model.batch}", f"{batch}, as planned")
        if array != (self.ways,):
            ways = "x".join(map(str, array))
            raise ProfileError(
                f"{place}: ways", f"found {self.ways}", f"one level of them; the array is {ways}"
            )


def read_profile(file: str | Path) -> Profile:
    """Read a table of measured times.

    Raises:
        InputError: the file is missing, damaged, or of another schema.
    """
    path = Path(file)
    data = read_json(path)
    if not isinstance(data, dict):
        raise ProfileError(str(path), f"found {shown(data)}", "an object")
    if "name" in data:
        raise ProfileError(f"{path}: name", f"found {shown(data['name'])}", "no such key")

    def place(where: Where) -> str:
        return f"{path}: {field_name(where)}" if where else str(path)

    found: Profile = validated(Profile, {**data, "name": path.stem}, place=place, error=ProfileError)
    return found
