"""Numbers and quantities with units. Internally sizes are in bytes; 1 MB is a million bytes."""

from __future__ import annotations

import re
from collections.abc import Callable

_LARGE = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
          "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}  # fmt: skip
_SMALL = {"m": 1e-3, "u": 1e-6, "\u00b5": 1e-6, "\u03bc": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}
_KINDS: dict[str, tuple[dict[str, float], str]] = {
    "bytes": ({"B": 1.0, "b": 1 / 8, "bit": 1 / 8}, "108 KB, 8 GB or 64 MiB"),
    "bytes_per_s": ({"B/s": 1.0, "b/s": 1 / 8, "bit/s": 1 / 8, "bps": 1 / 8}, "320 GB/s or 1600 Mb/s"),
    "flop_per_s": (dict.fromkeys(("FLOP/s", "OP/s", "OPS/s", "FLOPS", "OPS"), 1.0), "989 TFLOP/s"),
    "hertz": ({"Hz": 1.0}, "250 MHz"),
    "joules": ({"J": 1.0}, "3.7 pJ"),
    "seconds": ({"s": 1.0}, "5 us"),
    "watts": ({"W": 1.0}, "100 mW"),
}
"""Units of each kind of quantity, in hypar's own, and examples; b is a bit and B a byte, always."""

_QUANTITY = r"(?P<number>[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?) *(?P<unit>[A-Za-z/\u00b5\u03bc]+)"


def parse_quantity(text: object, kind: str) -> float:
    """Parse a quantity of a kind into hypar's own unit; raises ``ValueError`` that says what is allowed."""
    bases, examples = _KINDS[kind]
    found = re.fullmatch(_QUANTITY, text.strip(), re.ASCII) if isinstance(text, str) else None
    unit = found["unit"] if found else ""
    prefixes = _LARGE | (_SMALL if kind in {"joules", "seconds", "watts"} else {})
    for base, size in bases.items():
        if found and unit.endswith(base) and unit.removesuffix(base) in prefixes:
            return float(found["number"]) * (prefixes[unit.removesuffix(base)] * size)
    raise ValueError(f"a number with a unit, as {examples}")


def exact_number(number: float) -> int | float:
    """Return a whole number as an ``int``, so that it is written without ``.0``."""
    return int(number) if float(number).is_integer() else float(number)


def format_count(number: float) -> str:
    """Format a number with three digits and a decimal prefix, as ``138 M``; a small whole one with all digits, as ``17``."""
    value, prefix, prefixes = float(number), "", iter("kMGTP")
    while abs(value) >= 999.5 and (larger := next(prefixes, "")):
        value, prefix = value / 1000, larger
    if not prefix and value.is_integer():
        return str(int(value))
    digits = _rounded(value) if abs(value) < 999.5 else f"{value:.2e}"
    return f"{digits} {prefix}".rstrip()


def format_bytes(number: float) -> str:
    """Format bytes with a decimal prefix, as ``25.6 kB``."""
    text = format_count(number)
    return text + ("B" if text[-1].isalpha() else " B")


def format_seconds(number: float, unit: str = "s") -> str:
    """Format a time, or an amount of another unit, with a suitable prefix, as ``1.23 ms``, ``12,345 s`` or ``0 s``."""
    if number >= 999.5:
        return f"{number:,.0f} {unit}"
    for prefix, size in {"": 1.0, **_SMALL}.items():
        if number >= size * 0.9995 and prefix.isascii():
            return f"{_rounded(number / size)} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def _rounded(number: float) -> str:
    return f"{number:#.3g}".rstrip(".")


def format_gain(first: float | None, own: float) -> str:
    """Format how many times less a number is than the first one, as ``3.41x`` or ``12345x``; empty if that is not known."""
    if first is None or not own:
        return ""
    times = first / own
    return f"{times:.0f}x" if times >= 999.5 else f"{_rounded(times)}x"


_AMOUNTS: dict[str, Callable[[float], str]] = {
    "bytes": format_bytes, "seconds": format_seconds, "joules": lambda number: format_seconds(number, "J"),
    "count": format_count, "whole": lambda number: f"{number:,}" if number == int(number) else f"{number:,.1f}",
    "ratio": lambda number: format_gain(number, 1), "percent": lambda number: f"{number:.1%}",
}  # fmt: skip


def amount(number: float, unit: str) -> str:
    """Format an amount of a unit: ``whole`` has all digits, a ``ratio`` is ``3.31x``, ``percent`` is of 1."""
    shown = _AMOUNTS.get(unit)
    return shown(number) if shown else f"{format_count(number)} {unit}"
