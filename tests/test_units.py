"""Quantities as people write them, and what is refused."""

import pytest

from hypar.units import format_seconds, parse_quantity


@pytest.mark.parametrize(("text", "kind", "number"), [
    ("1600 Mb/s", "bytes_per_s", 200e6),
    ("25.6 Gb/s", "bytes_per_s", 3.2e9),
    ("1 b/s", "bytes_per_s", 1 / 8),
    ("108 KB", "bytes", 108_000),
    ("64 MiB", "bytes", 64 * 2**20),
    ("16 bit", "bytes", 2),
    ("16b", "bytes", 2),
    ("989.4 TFLOP/s", "flop_per_s", 989.4e12),
    ("84 GOPS/s", "flop_per_s", 84e9),
    ("250 MHz", "hertz", 250e6),
    ("3.7 pJ", "joules", 3.7e-12),
    ("0 J", "joules", 0),
    ("5 us", "seconds", 5e-6),
    ("5 \u00b5s", "seconds", 5e-6),
    ("200 Gbps", "bytes_per_s", 25e9),
    ("50 TFLOPS", "flop_per_s", 50e12),
    ("1e-6 s", "seconds", 1e-6),
    (".5 ms", "seconds", 5e-4),
    ("  12   ns ", "seconds", 12e-9),
])  # fmt: skip
def test_a_quantity_is_read(text: str, kind: str, number: float) -> None:
    assert parse_quantity(text, kind) == pytest.approx(number, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        # No unit, no number, or neither.
        ("108", "bytes"), (64, "bytes"), (1.5, "hertz"), ("", "bytes"), ("KB", "bytes"), (None, "bytes"),
        (True, "bytes"), (["1 B"], "bytes"), ("fast", "bytes_per_s"),
        # Not a unit.
        ("1 XB", "bytes"), ("1 kkB", "bytes"), ("1 mB", "bytes"), ("1 Gbs", "bytes_per_s"), ("1 kib", "bytes"),
        ("1 TFLOP", "flop_per_s"), ("1 mhz", "hertz"), ("1 h", "seconds"), ("5 xs", "seconds"),
        # A unit of another kind.
        ("320 GB", "bytes_per_s"), ("320 GB/s", "bytes"), ("5 us", "joules"), ("5 J", "seconds"),
        ("250 MHz", "flop_per_s"), ("1 TFLOP/s", "hertz"),
        # Not a number.
        ("nan B", "bytes"), ("inf B", "bytes"), ("-inf B", "bytes"), (float("nan"), "bytes"), ("1,5 B", "bytes"),
        ("1_000 B", "bytes"), ("0x10 B", "bytes"), ("1 2 B", "bytes"), ("1 B B", "bytes"), ("٣ B", "bytes"),
        ("1 GB / s", "bytes_per_s"),
    ],
)  # fmt: skip
def test_no_quantity(text: object, kind: str) -> None:
    with pytest.raises(ValueError, match=r"^a number with a unit, as [0-9.]+ [A-Za-z/]+"):
        parse_quantity(text, kind)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (1, "1.00 s"), (12, "12.0 s"), (999.4, "999 s"), (12345, "12,345 s"), (0.9996, "1.00 s"),
        (0.00123, "1.23 ms"), (0.9, "900 ms"), (5e-6, "5.00 us"), (2.5e-9, "2.50 ns"), (7e-13, "700 fs"),
        (1e-18, "1e-18 s"),
    ],
)  # fmt: skip
def test_seconds(seconds: float, text: str) -> None:
    """Joules are written alike."""
    assert format_seconds(seconds) == text
    assert format_seconds(seconds, "J") == text.replace("s", "J")
