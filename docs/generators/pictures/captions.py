"""Captions of the gallery's pictures, kept in the pictures: pages are written from them."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normdiag.rules.rule import Rule

FOLDER = Path("docs/pictures/rules")
SIDES = ("reported", "silent")
_METADATA = re.compile(r"<metadata>(.*?)</metadata>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caption:
    """What a picture shows."""

    title: str
    unit: str
    sentences: tuple[str, ...]
    """What healthy looks like, and what is to be said of this model alone."""
    thresholds: tuple[str, ...]
    """Those that are drawn."""
    is_ringed: bool
    alternative: str
    """What is seen, for those who do not see it."""
    verdict: str


def path_of(rule: Rule, side: str) -> Path:
    """Where the picture of one side of a rule lies, below the root of the repository."""
    return FOLDER / f"{rule.name}-{side}.svg"


def read_caption(svg: str) -> Caption:
    """Return the caption that a picture holds."""
    found = _METADATA.search(svg)
    if found is None:
        raise ValueError("the picture holds no caption")
    data: dict[str, Any] = json.loads(html.unescape(found[1]))
    lists = {name: tuple(data[name]) for name in ("sentences", "thresholds")}
    return Caption(**{**data, **lists})
