"""Groups of consecutive layers: those of one module that read one tensor from outside and give one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypar.registry import load_plugin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.importers.layers import LayerDraft

LEAST_LAYERS = 2


@dataclass(slots=True, eq=False)
class Group:
    """Consecutive layers of one module that read one tensor from outside and give one.

    Attributes:
        path: the module's path.
        parts: its layers, as their numbers, and its groups, in order.
        read: the layer outside that it reads.
        last: its last layer, or that of its last turn.
        members: numbers of its layers, those in its groups included.
        turns: how often equal groups stand one behind the other, this one included.
        form: its ops, their paths and wiring, without the values of their fields.
    """

    path: tuple[str, ...]
    parts: list[Part]
    read: int
    last: int
    members: list[int]
    form: object
    turns: int = 1


Part = int | Group


def last_of(part: Part) -> int:
    """Return the last layer of a part."""
    return part if isinstance(part, int) else part.last


class Groups:
    """The groups of a network, each form with all its groups.

    Attributes:
        parts: layers and groups in order.
        readers: numbers of the layers that read a layer.
        places: number of places in the model file where a form would stand.
        settings: for every form the fields that differ between its groups, each with the name of a parameter.
    """

    def __init__(self, drafts: Sequence[LayerDraft]) -> None:
        self.drafts = drafts
        self.readers: dict[int, set[int]] = {}
        for number, draft in enumerate(drafts):
            for read in draft.reads:
                self.readers.setdefault(read, set()).add(number)
        self.parts = self._grouped(range(len(drafts)), 0)
        self.places: dict[object, int] = {}
        self._uses: dict[object, list[Group]] = {}
        self._gather(self.parts, written=True)
        self.settings = {form: self._varied(uses) for form, uses in self._uses.items()}

    def _grouped(self, numbers: Sequence[int], depth: int) -> list[Part]:
        parts: list[Part] = []
        begin = 0
        while begin < len(numbers):
            path = self.drafts[numbers[begin]].scope[: depth + 1]
            end = begin + 1
            if len(path) <= depth:
                parts.append(numbers[begin])
                begin = end
                continue
            while end < len(numbers) and self.drafts[numbers[end]].scope[: depth + 1] == path:
                end += 1
            run = numbers[begin:end]
            inner, ends = self._grouped(run, depth + 1), self._ends(run)
            if len(run) >= LEAST_LAYERS and ends is not None:
                parts.append(Group(path, inner, *ends, [*run], self._form(run, depth + 1)))
            else:
                parts += inner
            begin = end
        return parts

    def _ends(self, run: Sequence[int]) -> tuple[int, int] | None:
        """Return the one layer that a run reads from outside, and its last; None if it has several or none."""
        inside = set(run)
        read = {read for number in run for read in self.drafts[number].reads} - inside
        given = {number for number in run if self.readers.get(number, set()) - inside}
        return (read.pop(), run[-1]) if len(read) == 1 and not given - {run[-1]} else None

    def _form(self, run: Sequence[int], depth: int) -> object:
        place = {number: index for index, number in enumerate(run)}
        drafts = [self.drafts[number] for number in run]
        return tuple(
            (
                draft.op,
                tuple(place.get(read, -1) for read in draft.reads),
                draft.scope[depth:],
                # A field without a default that could be written instead is there, or is not, in all groups of a form.
                tuple(sorted(key for key in draft.fields if default(draft.op, key) is None)),
                # So are names of dims the same, as no argument is a list of them.
                tuple((key, repr(draft.fields[key])) for key in draft.naming if key in draft.fields),
            )
            for draft in drafts
        )

    def _gather(self, parts: list[Part], *, written: bool) -> None:
        """Note every group by its form; what stands in a second group of a form is not written again."""
        for part in parts:
            if isinstance(part, Group):
                first = part.form not in self._uses
                self.places[part.form] = self.places.get(part.form, 0) + written
                self._uses.setdefault(part.form, []).append(part)
                self._gather(part.parts, written=written and first)

    def _varied(self, uses: list[Group]) -> dict[tuple[int, str], str]:
        """Return the name of a parameter for every field that differs; fields that go together share one."""
        places = dict.fromkeys(
            (index, key)
            for group in uses
            for index, number in enumerate(group.members)
            for key in self.drafts[number].fields
        )
        found: dict[tuple[int, str], str] = {}
        names: dict[tuple[str, tuple[str, ...]], str] = {}
        for index, key in places:
            values = tuple(repr(self.value(group.members[index], key)) for group in uses)
            if len(set(values)) > 1:
                if (key, values) not in names:
                    taken = [name for (other, _), name in names.items() if other == key]
                    names[key, values] = f"{key}_{len(taken) + 1}" if taken else key
                found[index, key] = names[key, values]
        return found

    def value(self, number: int, key: str) -> Any:
        """Return the value of a layer's field, its default where it is not given."""
        draft = self.drafts[number]
        return draft.fields[key] if key in draft.fields else default(draft.op, key)


def default(op: str, key: str) -> Any:
    """Return the default of a field as a model file writes it; None if it has none."""
    fields = load_plugin("ops", op).model_fields
    value = next(field.default for name, field in fields.items() if key in {name, field.alias})
    if isinstance(value, tuple):
        return value[0] if len(set(value)) == 1 else list(value)
    return value if isinstance(value, bool | int | float | str) else None
