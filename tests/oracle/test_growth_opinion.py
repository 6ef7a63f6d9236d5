"""The growth law against a second opinion that shares no code with it."""

from __future__ import annotations

import numpy as np
import pytest

from normdiag.numerics.growth_law import fit_growth_law
from tests.numerics.test_growth_law import stream, writes
from tests.oracle.growth_opinion import form_opinion

TOLERANCES = {"geometric": 0.005, "additive": 0.05, "power": 0.02, "bounded": 0.15}
"""Relative. The mean of log writes lies below the log of their mean by their variance, (2 x 0.1)^2
/ 2 = 2 %; a limit is an extrapolation."""


@pytest.mark.parametrize("law", ["geometric", "additive", "power", "bounded", "constant"])
@pytest.mark.parametrize("adds", [24, 48])
def test_writes_that_scatter(law: str, adds: int) -> None:
    """By 10 % each: both name the same law, nearly always that of the stream, or none."""
    right = 0
    for seed in range(8):
        rng = np.random.default_rng(1000 + seed)
        growth = adds ** rng.uniform(0.7, 0.9) if law == "power" else rng.uniform(4, 5)
        norms = writes(law, adds, growth, rng)
        right += _agree_on(norms) == law
    assert right >= (4 if law == "additive" else 8)


@pytest.mark.parametrize(
    ("curve", "law"),
    [
        ("geometric", "geometric"),
        ("shrinking", "geometric"),
        ("additive", "additive"),
        ("power", "power"),
        ("constant", "constant"),
    ],
)
def test_norms_that_scatter(curve: str, law: str) -> None:
    """By 2 % each, so that the squares do not increase at every add."""
    for seed in range(5):
        assert _agree_on(stream(curve, 36, 0.02, seed)) == law


def test_a_bend_is_no_law() -> None:
    depth = np.arange(40)
    assert _agree_on(np.exp(0.06 * depth + 0.5 * np.sin(depth / 6))) == "undecided"


def _agree_on(norms: np.ndarray) -> str:
    verdict, opinion = fit_growth_law(norms), form_opinion(norms)
    assert verdict.law == opinion.law
    if opinion.parameter is not None:
        assert verdict.rate == pytest.approx(opinion.parameter, rel=TOLERANCES[opinion.law])
    return opinion.law
