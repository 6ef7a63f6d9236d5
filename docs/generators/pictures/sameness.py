"""Whether a picture still shows what it would show if it were made anew.

Machines differ in the last digits of numbers, and with them in the place of a point by a fraction
of a pixel. Everything else is compared exactly: words, colours, the number of marks.
"""

from __future__ import annotations

import math
import re

from docs.generators.console_examples import is_same_output

PIXELS = 1.5
"""Two coordinates closer than this are the same place."""
_TAG = re.compile(r"<[^>]*>")
_PLACED = re.compile(r' (transform|d|x|y|x1|y1|x2|y2|width|height|viewBox|textLength)="([^"]*)"')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def is_same_picture(shown: str, now: str) -> bool:
    """Compare two drawings, as SVG or HTML: texts, marks, and where the marks stand."""
    if not is_same_output(_TAG.sub(" ", shown), _TAG.sub(" ", now)):
        return False
    pairs = zip(_TAG.findall(shown), _TAG.findall(now), strict=False)
    return len(_TAG.findall(shown)) == len(_TAG.findall(now)) and all(
        a == b or _is_same_tag(a, b) for a, b in pairs
    )


def _is_same_tag(shown: str, now: str) -> bool:
    """Compare two tags: coordinates nearly, numbers of labels nearly, the rest exactly."""
    if not is_same_output(_PLACED.sub(r" \1", shown), _PLACED.sub(r" \1", now)):
        return False
    old, new = _read_places(shown), _read_places(now)
    return len(old) == len(new) and all(
        math.isclose(float(a), float(b), abs_tol=PIXELS) for a, b in zip(old, new, strict=True)
    )


def _read_places(tag: str) -> list[str]:
    return [number for _, value in _PLACED.findall(tag) for number in _NUMBER.findall(value)]
