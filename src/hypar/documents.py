"""Files that people write, read with the line of every field; files that hypar writes, written whole.

YAML is composed to nodes with PyYAML, which keep their lines, and turned into plain data here: an alias
that would expand without end, a key given twice or a nesting without end is refused.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hypar.errors import DocumentError

MOST_NODES = 200_000
"""Values in one file, aliases expanded."""

MOST_BYTES = 64 * 2**20
"""Bytes of one file."""

Where = tuple[str | int, ...]
"""A place in a document: keys and indices from the top."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file's content with the line of every place in it.

    Attributes:
        file: the path as it was given.
        data: mappings, lists and scalars.
        lines: line of each place, from 1.
    """

    file: Path
    data: Any
    lines: dict[Where, int] = field(default_factory=dict)

    def at(self, where: Where) -> str:
        """``file:line: field`` of a place; the line is that of the nearest place around it.

        Example:
            >>> Document(file=Path("a.yaml"), data={}, lines={(): 1, ("layers",): 4}).at(("layers", 2, "op"))
            'a.yaml:4: layers[2].op'
        """
        line = next((self.lines[where[:n]] for n in range(len(where), -1, -1) if where[:n] in self.lines), 1)
        return f"{self.file}:{line}" + (f": {field_name(where)}" if where else "")


def field_name(where: Where) -> str:
    """A place as people write it.

    Example:
        >>> field_name(("layers", 3, "kernel"))
        'layers[3].kernel'
    """
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in where)
    return "".join(parts).removeprefix(".")


def read_text(file: Path) -> str:
    """The text of a file.

    Raises:
        DocumentError: it is missing, a folder, too large, or not text.
    """
    try:
        if (size := file.stat().st_size) > MOST_BYTES:
            raise DocumentError(str(file), f"found {size:,} bytes", f"at most {MOST_BYTES:,}")
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError(str(file), f"not UTF-8 text at byte {error.start}") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DocumentError(str(file), f"cannot be read: {reason}") from error


def read_yaml(file: Path) -> Document:
    """Read a YAML file with the line of each field.

    Raises:
        DocumentError: it cannot be read, is empty, not YAML, or grows past ``MOST_NODES`` values.
    """
    return parse_yaml(read_text(file), file)


def parse_yaml(text: str, file: Path) -> Document:
    """As ``read_yaml``, from the text of a file."""
    loader = None
    try:
        loader = _LOADER(text)
        root = loader.get_single_node()
        if root is None:
            raise DocumentError(str(file), "the file is empty")
        lines: dict[Where, int] = {}
        return Document(file=file, data=_Builder(loader, file, lines).build(root, ()), lines=lines)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DocumentError(f"{file}{line}", f"not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise DocumentError(str(file), f"not YAML: {error}") from error
    except RecursionError as error:
        raise DocumentError(str(file), "nested too deeply") from error
    finally:
        if loader is not None:
            loader.dispose()


class _Builder:
    """Turns composed nodes into plain data and notes their lines."""

    def __init__(self, loader: Any, file: Path, lines: dict[Where, int]) -> None:
        self.loader, self.file, self.lines = loader, file, lines

    def build(self, node: yaml.Node, where: Where) -> Any:
        """One node and all below it."""
        line = node.start_mark.line + 1
        self.lines[where] = line
        if len(self.lines) > MOST_NODES:
            raise DocumentError(f"{self.file}:{line}", f"more than {MOST_NODES:,} values, aliases expanded")
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*where, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, where)
        try:
            return self.loader.construct_object(node)
        except (ValueError, OverflowError) as error:
            raise DocumentError(f"{self.file}:{line}", f"not a value: {node.value!r:.60}") from error

    def mapping(self, node: yaml.MappingNode, where: Where) -> dict[str, Any]:
        """A mapping whose keys are words, each once."""
        found: dict[str, Any] = {}
        for key_node, value in node.value:
            place = f"{self.file}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                raise DocumentError(place, "a key that is a list or a mapping", "a word")
            key = key_node.value
            if key in found:
                raise DocumentError(place, f"key {key!r} given twice", "once")
            found[key] = self.build(value, (*where, key))
            self.lines[*where, key] = key_node.start_mark.line + 1
        return found


def read_json(file: Path) -> Any:
    """Read a JSON file; NaN and infinities are refused.

    Raises:
        DocumentError: it cannot be read or is not JSON.
    """

    def refuse(word: str) -> None:
        raise DocumentError(str(file), f"found {word}", "finite numbers")

    text = read_text(file)
    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise DocumentError(f"{file}:{error.lineno}", f"not JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise DocumentError(str(file), f"not JSON: {error}") from error


def format_json(data: Any, indent: str = "") -> str:
    """JSON with a line for each innermost list or mapping, so that a file's changes read well.

    Example:
        >>> print(format_json({"level": 0, "choices": {"fc1": {"batch": 2}}}))
        {
         "level": 0,
         "choices": {
          "fc1": {"batch": 2}
         }
        }
    """
    items = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    if not any(isinstance(item, dict | list) for item in items):
        return json.dumps(data, ensure_ascii=False)
    deeper = f"{indent} "
    if isinstance(data, dict):
        lines = [
            f"{json.dumps(key, ensure_ascii=False)}: {format_json(value, deeper)}"
            for key, value in data.items()
        ]
    else:
        lines = [format_json(value, deeper) for value in data]
    start, end = "{}" if isinstance(data, dict) else "[]"
    return f"{start}\n{deeper}" + f",\n{deeper}".join(lines) + f"\n{indent}{end}"


def write_text(file: Path, text: str) -> None:
    """Write a file whole or not at all: beside it first, then renamed.

    Raises:
        DocumentError: its folder is missing or cannot be written to.
    """
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(file)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
        raise DocumentError(str(file), f"cannot be written: {error.strerror}") from error
