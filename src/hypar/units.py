"""Numbers as people read them. Inside hypar everything is in bytes; 1 MB is a million of them."""

from __future__ import annotations

DTYPE_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Size of one element of each number format."""


def format_count(number: float) -> str:
    """Three digits and a decimal prefix.

    Example:
        >>> format_count(138_357_544)
        '138 M'
        >>> format_count(2_000), format_count(17)
        ('2.00 k', '17')
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
    """Bytes with a decimal prefix.

    Example:
        >>> format_bytes(25_600)
        '25.6 kB'
    """
    text = format_count(number)
    return text + ("B" if text[-1].isalpha() else " B")


def exact_number(number: float) -> int | float:
    """The same number, as an ``int`` where it is whole: so it is written without a needless ``.0``."""
    return int(number) if float(number).is_integer() else float(number)
