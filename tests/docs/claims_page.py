"""docs/claims.md, read back: the sections, and the rows of a table as numbers."""

from __future__ import annotations

import re
from pathlib import Path

from docs.generators.claims import CLAIMS
from docs.generators.claims.claim import Claim

PAGE = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")
CLAIMS_BY_NAME: dict[str, Claim] = {claim.name: claim for claim in CLAIMS}


def page_section(name: str) -> str:
    """The section of a claim as it stands on the page."""
    number = [*CLAIMS_BY_NAME].index(name) + 1
    heading = f"## {number}. {CLAIMS_BY_NAME[name].statement}\n"
    return "\n" + next(s for s in re.split(r"\n(?=## )", PAGE) if s.startswith(heading))


def page_verdict(name: str) -> str:
    """Its verdict, in one line."""
    match = re.search(r"^\*\*([^*]+)\.\*\* Source:", page_section(name), re.MULTILINE)
    assert match is not None
    return " ".join(match[1].split())


def page_rows(name: str, length: int, end: int) -> list[list[float | str]]:
    """The rows of one length, at the lower (0) or the upper (-1) end of each range."""
    table = re.findall(r"^\| (.+) \|$", page_section(name), re.MULTILINE)[2:]
    lines = [line.split(" | ") for line in table]
    return [
        [read_cell(cell, end) for cell in cells]
        for lengths, *cells in lines
        if str(length) in lengths.split(", ")
    ]


def read_cell(cell: str, end: int) -> float | str:
    """A number, an end of a range of numbers, or words."""
    try:
        return float(cell.split(" to ")[end])
    except ValueError:
        return cell
