"""Numbers as they stand on the screen, read back without the product's code."""

from __future__ import annotations

import math
import re
from decimal import Decimal

NUMBER = r"[+-]?[<>]?[+-]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)[%×]?"
_ALONE = re.compile(rf"(?<![^\s(\[=]){NUMBER}(?=[,.;:)\]]*(?:\s|$))")


def find_numbers(text: str) -> list[str]:
    """Return the numbers that stand by themselves: not those inside names or versions."""
    return _ALONE.findall(text)


def find_number_spans(text: str) -> list[tuple[int, int]]:
    """Return where these numbers stand."""
    return [match.span() for match in _ALONE.finditer(text)]


def agrees_with(shown: str, value: float | None) -> bool:
    """Whether `shown` is `value` to the digits that are shown, or a bound that holds for it."""
    if value is None:
        return shown == "-"
    bound = next((each for each in "<>" if each in shown), "")
    digits = shown.replace(bound, "")
    scale = 100.0 if digits.endswith("%") else 1.0
    digits = digits.rstrip("%×").replace(",", "")
    if not math.isfinite(value):
        return float(digits) == value or (math.isnan(value) and digits.endswith("nan"))
    number = Decimal(digits)
    if not number.is_finite():
        return False
    expected = value * scale
    if bound:
        magnitude = abs(expected)
        return (
            magnitude <= abs(float(number)) * 1.005
            if bound == "<"
            else expected >= float(number) * 0.995
        )
    unit = 10.0 ** int(number.as_tuple().exponent)
    return abs(float(number) - expected) <= unit / 2 * (1 + 1e-6) + 1e-9 * abs(expected)
