"""The page of claims is what its runs give: words alike, numbers to two percent."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from docs.generators.claims import CLAIMS
from docs.generators.claims.claim import section as section_of_claim

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "claims.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?")
QUICK = ("rank_of_a_norm", "gain_and_scale", "constant_vector", "linear_part", "common_offset")
TIMED = "faster_by_half"


@pytest.fixture
def claims() -> dict[str, Any]:
    """Every claim by name."""
    return {claim.name: claim for claim in CLAIMS}


def section(claims: dict[str, Any], name: str) -> str:
    """The section of one claim, measured now."""
    number = [*claims].index(name) + 1
    return section_of_claim(number, claims[name], claims[name].measure())


def on_the_page(section: str) -> str:
    """The section of the page that has the same heading."""
    heading = section.strip().splitlines()[0]
    return "\n" + next(s for s in re.split(r"\n(?=## )", PAGE) if s.startswith(heading + "\n"))


def differences(found: str, written: str) -> list[str]:
    """Where two sections differ by more than two percent, or in a word."""
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (found, written)]
    if words[0] != words[1]:
        return words
    pairs = zip(NUMBER.findall(found), NUMBER.findall(written), strict=True)
    return [
        f"{a} is written as {b}"
        for a, b in pairs
        if not math.isclose(float(a), float(b), rel_tol=0.02, abs_tol=1e-6)
    ]


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_claim_is_on_the_page_as_it_comes_out(claims: dict[str, Any], name: str) -> None:
    found = section(claims, name)
    assert differences(found, on_the_page(found)) == []


@pytest.mark.slow
def test_every_claim_is_on_the_page_as_it_comes_out(claims: dict[str, Any]) -> None:
    """But for the times, which are the machine's."""
    for name in claims.keys() - {TIMED, *QUICK}:
        found = section(claims, name)
        assert differences(found, on_the_page(found)) == [], name


def test_each_claim_has_a_row_and_a_section_with_one_verdict(claims: dict[str, Any]) -> None:
    sections = re.findall(r"^## (\d+)\. (.+)\n\n\*\*([^*]+)\.\*\*", PAGE, re.MULTILINE)
    rows = re.findall(r"^\| (\d+) \| \[(.+)\]\(#.+\) \| (.+) \|$", PAGE, re.MULTILINE)
    assert [statement for _, statement, _ in sections] == [c.statement for c in claims.values()]
    assert len(sections) >= 23
    for (number, statement, verdict), row in zip(sections, rows, strict=True):
        found = " ".join(verdict.split())
        assert row == (number, statement, found[0].lower() + found[1:])


def test_the_times_are_a_processors_and_promise_nothing() -> None:
    timed = PAGE[PAGE.index("RMSNorm is up to 50 % faster", PAGE.index("\n## 23")) :]
    assert re.search(r"CPU, with torch \S+ on \d+ thread", " ".join(timed.split()))
    assert "**No fixed saving can be claimed.**" in timed
    assert re.findall(r"^\| (\d+) \| (fused|written out) \|", timed, re.MULTILINE) == [
        (width, norm) for width in ("512", "768", "4096") for norm in ("fused", "written out")
    ]


@pytest.mark.parametrize("change", [("0.9", "0.8"), ("Held", "Did not hold"), ("1e-05", "1e-03")])
def test_a_difference_is_noticed(change: tuple[str, str]) -> None:
    text = "**Held.** The share is 0.9 at epsilon 1e-05 and 3 seeds."
    assert differences(text, text.replace("0.9", "0.901")) == []
    assert differences(text, text.replace(*change)) != []
