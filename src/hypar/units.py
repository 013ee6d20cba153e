"""Numbers and quantities with units. Internally sizes are in bytes; 1 MB is a million bytes."""

from __future__ import annotations

import re

DTYPE_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Size of one element of each number format."""

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
    """Parse a quantity into hypar's own unit: bytes, bytes a second, FLOP a second, Hz, J, s or W.

    Raises:
        ValueError: the text is not a number with a unit of that kind; the message says what is allowed.

    Examples:
        >>> parse_quantity("1600 Mb/s", "bytes_per_s"), parse_quantity("108 KB", "bytes")
        (200000000.0, 108000.0)
    """
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


def amount(number: float, unit: str) -> str:
    """Format a cost with its unit."""
    shown = {"bytes": format_bytes, "seconds": format_seconds, "joules": format_joules}.get(unit)
    return shown(number) if shown else f"{format_count(number)} {unit}"


def format_count(number: float) -> str:
    """Format a number with three digits and a decimal prefix.

    Examples:
        >>> format_count(138_357_544), format_count(2_000), format_count(17)
        ('138 M', '2.00 k', '17')
    """
    value = float(number)
    prefixes = iter(("", "k", "M", "G", "T", "P"))
    prefix = next(prefixes)
    while abs(value) >= 999.5 and (larger := next(prefixes, None)):
        value, prefix = value / 1000, larger
    if not prefix and value.is_integer():
        return str(int(value))
    digits = f"{value:#.3g}".rstrip(".") if abs(value) < 999.5 else f"{value:.2e}"
    return f"{digits} {prefix}".rstrip()


def format_bytes(number: float) -> str:
    """Format bytes with a decimal prefix, as ``25.6 kB``."""
    text = format_count(number)
    return text + ("B" if text[-1].isalpha() else " B")


def format_seconds(seconds: float) -> str:
    """Format a time with a suitable prefix.

    Examples:
        >>> format_seconds(0.00123), format_seconds(12), format_seconds(0)
        ('1.23 ms', '12.0 s', '0 s')
    """
    return _with_small_prefix(seconds, "s")


def format_joules(joules: float) -> str:
    """Format an energy with a suitable prefix."""
    return _with_small_prefix(joules, "J")


def _with_small_prefix(number: float, unit: str) -> str:
    for prefix, size in (("", 1.0), *((key, value) for key, value in _SMALL.items() if key.isascii())):
        if number >= size * 0.9995:
            digits = number / size
            if digits < 999.5:
                return f"{digits:#.3g}".rstrip(".") + f" {prefix}{unit}"
            return f"{digits:,.0f} {unit}"
    return f"{number:.3g} {unit}"


def format_gain(first: float | None, own: float, digits: int = 3) -> str:
    """Format how many times less a number is than the first one; empty if that is not known.

    Examples:
        >>> format_gain(6.45, 1.89), format_gain(6.45, 98.8), format_gain(12_345, 1), format_gain(6.45, 1.89, digits=4)
        ('3.41x', '0.0653x', '12345x', '3.413x')
    """
    if first is None or not own:
        return ""
    times = first / own
    return f"{times:.0f}x" if times >= 10**digits - 0.5 else f"{times:#.{digits}g}".rstrip(".") + "x"


def faster_than(name: str, first: float, own: float) -> str:
    """Compare a time with that of something else.

    Examples:
        >>> faster_than("dp", 6.45, 1.94), faster_than("dp", 3.2, 3.1), faster_than("dp", 1.0, 1.0002)
        ('3.32x faster than dp', '3.2% faster than dp', 'as fast as dp')
        >>> faster_than("dp", 3.1, 3.2), faster_than("dp", 6.45, 98.8)
        ('3.2% slower than dp', '15.3x slower than dp')
    """
    fast, slow = min(first, own), max(first, own)
    if slow - fast < 1e-3 * fast or not fast:
        return f"as fast as {name}"
    ratio = format_gain(slow, fast) if slow >= 1.1 * fast else f"{slow / fast - 1:.1%}"
    return f"{ratio} {'faster' if own < first else 'slower'} than {name}"
