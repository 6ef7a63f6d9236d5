"""Numbers as people read them: one way to print each."""

from __future__ import annotations

import math

UNKNOWN = "-"
_DTYPE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
}


def number(value: float | None, digits: int = 3) -> str:
    """Return `value` to `digits` significant digits, at most `digits + 6` characters.

    >>> number(0.0123), number(812.5), number(31200.0), number(1.5e-7), number(None)
    ('0.0123', '812', '31,200', '1.50e-7', '-')
    """
    if value is None:
        return UNKNOWN
    if not math.isfinite(value) or value == 0:
        return f"{value:.0f}".replace("-0", "0")
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    power = int(exponent)
    if power < -3 or power > 4:
        return f"{mantissa}e{power}"
    if power >= digits - 1:
        return f"{value:,.0f}"
    return f"{value:.{digits - 1 - power}f}"


def signed(value: float | None) -> str:
    """Return a cosine with its sign and two decimals."""
    if value is None or not math.isfinite(value):
        return number(value)
    return f"{value:+.2f}"


def percent(share: float | None) -> str:
    """Return a share of one as a percentage, in at most 7 characters."""
    if share is None or not math.isfinite(share):
        return number(share)
    return f"{number(100 * share, 2 if share > 1e-11 else 1)}%"


def whole(value: float) -> str:
    """Return a value that may be a count, and then without decimals."""
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e9 else number(value)


def times(factor: float) -> str:
    """Return a factor, such as 31.2x."""
    return f"{number(factor)}x" if math.isfinite(factor) else number(factor)


def count(many: int, noun: str) -> str:
    """Return `many` with thousands marked, and the noun in its number."""
    return f"{many:,} {noun}" if many == 1 else f"{many:,} {noun}s"


def memory(parameters: int, dtype: str) -> str | None:
    """Return what `parameters` of one dtype take in memory; None for a dtype not known here."""
    size = _DTYPE_BYTES.get(dtype.removeprefix("torch."))
    if size is None:
        return None
    amount, units = float(parameters * size), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{number(amount)} {units[0]}"
