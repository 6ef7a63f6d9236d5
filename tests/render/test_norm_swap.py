"""What another norm would change, in words that the numbers bear out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from normdiag.evidence.invariances import CentringEffect, Invariances
from normdiag.evidence.norm_speed import NormSpeed
from normdiag.evidence.norm_swap import NormSwap, SwapLoss
from normdiag.evidence.statistics import MedianMax
from normdiag.report.report import Report
from tests.reports import llama
from tests.written import render_text


def report(**measured: Any) -> Report:
    one = llama(1)
    cleared = {"invariances": None, "norm_swap": None} | measured
    return replace(one, measurements=replace(one.measurements, **cleared))


def text(**measured: Any) -> str:
    """The page as one line."""
    return " ".join(render_text(report(**measured), width=400).split())


def swap(**given: Any) -> NormSwap:
    whole: dict[str, Any] = {
        "layer_norms": 0,
        "rms_norms": 61,
        "swapped": 61,
        "alone": {"a": MedianMax(median=0.05, max=0.9), "b": MedianMax(median=0.06, max=0.15)},
        "hidden_change": 0.1326,
        "tokens": 512,
        "loss": SwapLoss(kind="causal-lm", tokens=508, before=2.67267, after=2.76913),
    }
    return NormSwap(**(whole | given))


def test_all_at_once_with_the_loss() -> None:
    assert (
        "LayerNorm instead of RMSNorm at all 61 norms changes the last hidden state by 13% "
        "(||h' - h|| / ||h|| over 512 tokens); next-token loss 2.673 -> 2.769 (508 targets)."
    ) in text(norm_swap=swap())


def test_the_largest_alone() -> None:
    assert (
        "Largest median change of a single norm's output, over sampled rows of its own input: "
        "6.0% at b."
    ) in text(norm_swap=swap())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"layer_norms": 61, "rms_norms": 0}, "RMSNorm instead of LayerNorm at all 61 norms"),
        ({"layer_norms": 3, "swapped": 64}, "LayerNorm and RMSNorm exchanged at all 64 norms"),
        ({"swapped": 60}, "at 60 of 61 norms"),
        ({"rms_norms": 1, "swapped": 1}, "at 1 of 1 norm changes"),
    ],
)
def test_which_norms_were_swapped(given: dict[str, int], words: str) -> None:
    assert words in text(norm_swap=swap(**given))


def test_nothing_is_said_of_a_loss_that_there_is_not() -> None:
    line = next(x for x in text(norm_swap=swap(loss=None)).splitlines() if "instead" in x)
    assert "loss" not in line


def test_what_was_not_swapped_changes_nothing_that_is_said() -> None:
    assert "instead of" not in text(norm_swap=swap(swapped=0))


def test_mean_energy_is_a_number_without_a_verdict() -> None:
    effect = CentringEffect(kind="layernorm", norms=2, median=0.9, max=47.0, norm="a.b", share=0.37)
    shown = text(invariances=Invariances(centring=(effect,)))
    assert (
        "Energy of LayerNorm inputs in their mean direction, in units of 1/H (a random direction; "
        "2 norms): median 0.900, largest 47.0 (37% of the energy) at a.b."
    ) in shown
    assert "RMSNorm would" not in shown


def test_times_with_their_range() -> None:
    speed = NormSpeed(
        form="composed",
        shape=(4, 128, 576),
        features=576,
        dtype="float32",
        device="cpu",
        norms=61,
        runs=30,
        layer_norm_ms=2.0,
        rms_norm_ms=1.5,
        ratio=0.75,
        ratio_min=0.5,
        ratio_max=0.9,
    )
    assert (
        "Time at 4×128×576 float32 on cpu (61 norms), written out: LayerNorm 2.00 ms, RMSNorm "
        "1.500 ms; RMSNorm / LayerNorm 0.750 (0.500 to 0.900; medians and range of 30 runs)."
    ) in text(norm_speed=(speed,))


def test_nothing_measured_nothing_shown() -> None:
    assert "RMSNorm or LayerNorm" not in text()
