"""How numbers are written for people: in sentences, in tables and in the messages of rules.

One number is rounded in one way wherever it stands, so that a message and the table beside it
agree. JSON and CSV hold the numbers in full.
"""

from __future__ import annotations

import math

UNKNOWN = "-"
_SMALLEST_SHARE = 1e-5
"""Shares below this are written as a bound."""


def format_number(value: float | None, digits: int = 3) -> str:
    """Return `value` to `digits` significant digits, at most `digits + 6` characters.

    From 1 to 2 there is one digit more, since ratios are read by their distance from 1.

    >>> format_number(0.0123), format_number(812.5), format_number(31200.0), format_number(1.1514)
    ('0.0123', '812', '31,200', '1.151')
    >>> format_number(1.5e-7), format_number(None)
    ('1.50e-7', '-')
    """
    if value is None:
        return UNKNOWN
    if not math.isfinite(value) or value == 0:
        return f"{value:.0f}".replace("-0", "0")
    if digits == 3 and 1 <= round(abs(value), 3) < 2:
        return f"{value:.3f}"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    power = int(exponent)
    if power < -3 or power > 4:
        return f"{mantissa}e{power}"
    if power >= digits - 1:
        return f"{value:,.0f}"
    return f"{value:.{digits - 1 - power}f}"


def format_value(value: float | None) -> str:
    """Return a value that may be a count, and then without decimals.

    >>> format_value(1234.0), format_value(0.25)
    ('1,234', '0.250')
    """
    if value is not None and float(value).is_integer() and abs(value) < 1e9:
        return f"{value + 0.0:,.0f}"
    return format_number(value)


def format_percent(share: float | None) -> str:
    """Return a share of one as a percentage to two digits, in at most 7 characters.

    >>> format_percent(0.0751), format_percent(1.0), format_percent(4e-12)
    ('7.5%', '100%', '<0.001%')
    """
    if share is None or not math.isfinite(share):
        return format_number(share)
    if 0 < abs(share) < _SMALLEST_SHARE:
        return f"<{format_number(100 * _SMALLEST_SHARE, 1)}%"
    return f"{format_number(100 * share, 2)}%"


def format_signed(value: float | None) -> str:
    """Return a cosine with its sign and two decimals."""
    if value is None or not math.isfinite(value):
        return format_number(value)
    return f"{value:+.2f}"


def format_factor(factor: float | None) -> str:
    """Return a factor, such as 31.2×."""
    if factor is None or not math.isfinite(factor):
        return format_number(factor)
    return f"{format_number(factor)}×"


def format_count(many: int, noun: str, plural: str | None = None) -> str:
    """Return `many` with thousands marked, and the noun in its number.

    >>> format_count(1, "norm"), format_count(1200, "norm")
    ('1 norm', '1,200 norms')
    """
    return f"{many:,} {noun}" if many == 1 else f"{many:,} {plural or noun + 's'}"


def format_setting(value: float) -> str:
    """Return a number that was set rather than measured, with the digits that it was set with.

    >>> format_setting(0.1), format_setting(1e4), format_setting(2.0**19)
    ('0.1', '10000', '524288')
    """
    return f"{value:g}"
