"""Numbers as a page shows them: three digits, never split from their unit, with the signs of print."""

from __future__ import annotations

import re

from hypar.units import amount as plain_amount
from hypar.units import format_bytes, format_joules, format_seconds

THIN = "\u202f"
"""The narrow space between a number and its unit, where no line breaks."""

TIMES, MICRO, DASH = "\u00d7", "\u00b5", "\u2013"

_QUANTITY = re.compile(r"\d (?:[kMGTPmunpf]?(?:B|s|J|Hz)|%)(?![a-zA-Z])")

LEAST_RATIO = 1.1
"""The gain from which it is given as a ratio, not in percent."""

LEAST_SHARE = 0.001
"""The share below which no digits are given."""


def printed(text: str) -> str:
    """Return a formatted quantity with the signs of print."""
    return text.replace(" us", f" {MICRO}s").replace(" ", THIN)


def seconds(number: float | None) -> str:
    """Format a time; a dash for no work."""
    return printed(format_seconds(number)) if number else DASH if number is None else f"0{THIN}s"


def num_bytes(number: float | None) -> str:
    """Format bytes; a dash for an unknown number."""
    return DASH if number is None else printed(format_bytes(number))


def joules(number: float | None) -> str:
    """Format an energy; a dash for an unknown one."""
    return DASH if number is None else printed(format_joules(number))


def amount(number: float, unit: str) -> str:
    """Format a cost with its unit."""
    return printed(plain_amount(number, unit))


def percent(share: float) -> str:
    """Format a share with two digits.

    Example:
        >>> percent(0.3517).split(THIN), percent(0.0099).split(THIN), percent(0.0002).split(THIN)
        (['35', '%'], ['0.99', '%'], ['< 0.1', '%'])
    """
    if 0 < share < LEAST_SHARE:
        return f"< 0.1{THIN}%"
    digits = f"{share * 100:.2g}" if share < 0.0995 else f"{share * 100:.0f}"
    return f"{digits}{THIN}%"


def ratio(base: float, own: float) -> str:
    """Format how many times smaller a number is than the base.

    Example:
        >>> [ratio(*pair).strip(TIMES) for pair in ((6.45, 1.94), (10, 1), (1, 15))]
        ['3.32', '10.0', '0.07']
    """
    if not own:
        return DASH
    found = base / own
    return (
        f"{found:,.0f}{TIMES}"
        if found >= 999.5
        else f"{found:#.3g}{TIMES}"
        if found >= 1
        else f"{found:.2f}{TIMES}"
    )


def faster(base: float, own: float) -> str:
    """Say how much faster a time is than the base.

    Example:
        >>> faster(6.45, 1.94).split(TIMES), faster(1.0, 1.0), faster(1.0, 1.008).split(THIN)
        (['3.32', ' faster'], 'as fast', ['0.8', '% slower'])
    """
    if abs(base - own) < LEAST_SHARE * base:
        return "as fast"
    if own < base:
        gain = base / own
        return f"{ratio(base, own)} faster" if gain >= LEAST_RATIO else f"{percent(gain - 1)} faster"
    more = own / base - 1
    return f"{ratio(own, base)} slower" if more >= LEAST_RATIO - 1 else f"{percent(more)} slower"


def prose(text: str) -> str:
    """Return a sentence whose numbers are not split from their units.

    Example:
        >>> prose("on hmc: 842 us a step, 1.40 J").split(THIN)
        ['on hmc: 842', 'µs a step, 1.40', 'J']
    """
    return _QUANTITY.sub(lambda found: printed(found[0]), text)
