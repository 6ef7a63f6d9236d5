"""The page of claims is what its runs give, and every verdict follows from its table."""

from __future__ import annotations

import math
import re

import pytest

from docs.generators.claims.claim import FAILED, HELD, Case, Criterion, Trial, join_verdicts
from docs.generators.claims.section import claim_section, merge_cells, merge_rows
from tests.docs.claims_page import (
    CLAIMS_BY_NAME,
    PAGE,
    page_rows,
    page_section,
    page_verdict,
)

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?")
QUICK = (
    "rank_of_a_norm",
    "gain_and_bias",
    "gain_and_scale",
    "inverse_scale",
    "scale_free_weight",
    "output_scale",
    "gradient_of_one",
    "drift_with_position",
    "linear_part",
    "saturation",
)
MACHINE = {"faster_by_half", "warm_up"}
"""Times are a machine's; eighty steps of training multiply what its rounding differs by."""


def measured_section(name: str) -> str:
    """The section of one claim, measured now."""
    claim = CLAIMS_BY_NAME[name]
    number = [*CLAIMS_BY_NAME].index(name) + 1
    return claim_section(number, claim, {case: claim.measure(case) for case in claim.trial.cases})


def differences(measured: str, written: str) -> list[str]:
    """Where two sections differ by more than two percent, or in a word."""
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (measured, written)]
    if words[0] != words[1]:
        return words
    pairs = zip(NUMBER.findall(measured), NUMBER.findall(written), strict=True)
    return [
        f"{a} is written as {b}"
        for a, b in pairs
        if not math.isclose(float(a), float(b), rel_tol=0.02, abs_tol=1e-6)
    ]


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_claim_is_on_the_page_as_it_comes_out(name: str) -> None:
    assert differences(measured_section(name), page_section(name)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CLAIMS_BY_NAME.keys() - MACHINE - {*QUICK}))
def test_every_claim_is_on_the_page_as_it_comes_out(name: str) -> None:
    assert differences(measured_section(name), page_section(name)) == []


def test_each_claim_has_a_row_and_a_section_with_one_verdict() -> None:
    sections = re.findall(r"^## (\d+)\. (.+)\n\n\*\*([^*]+)\.\*\* Source:", PAGE, re.MULTILINE)
    rows = re.findall(r"^\| (\d+) \| \[(.+)\]\(#.+\) \| (.+) \|$", PAGE, re.MULTILINE)
    assert [each[1] for each in sections] == [c.statement for c in CLAIMS_BY_NAME.values()]
    assert len(sections) >= 35
    for (number, statement, verdict), row in zip(sections, rows, strict=True):
        words = " ".join(verdict.split())
        assert row == (number, statement, words[0].lower() + words[1:])


def test_every_claim_is_tried_at_three_lengths_with_five_seeds() -> None:
    for claim in CLAIMS_BY_NAME.values():
        assert len(claim.trial.lengths) == 3
        assert len(claim.trial.seeds) == 5


@pytest.mark.parametrize("name", CLAIMS_BY_NAME)
def test_a_verdict_of_all_trials_follows_from_the_ends_of_the_ranges(name: str) -> None:
    claim, verdict = CLAIMS_BY_NAME[name], page_verdict(name)
    ends = {
        claim.criterion.judge(page_rows(name, length, end))
        for length in claim.trial.lengths
        for end in (0, -1)
    }
    if verdict in (HELD.capitalize(), FAILED.capitalize()):
        assert {each.capitalize() for each in ends} == {verdict}
    else:
        assert any(each[1:] in verdict for each in ends)


TURNED = (
    ("additive_growth", {2: 0.5}, FAILED),
    ("tenfold_at_a_hundred", {2: 5.0}, FAILED),
    ("tenfold_at_a_hundred", {2: 10.0}, HELD),
    ("growth_without_norms", {1: 1.0}, FAILED),
    ("growth_without_norms", {1: 2.0, 2: 1.0}, HELD),
    ("share_of_a_block", {-1: -0.1}, FAILED),
    ("remedies_of_dilution", {-1: 0.0}, HELD),
    ("scaled_branches", {2: 1.0}, FAILED),
    ("scaled_branches", {2: 0.5}, HELD),
    ("shrinking_gains", {1: 0.5}, FAILED),
    ("scale_is_reset", {2: 1.5}, FAILED),
    ("variance_at_a_post_norm", {-1: 0.5}, HELD),
    ("exponential_decay", {1: 1e5}, HELD),
    ("flat_post_norm", {1: 1.0}, HELD),
    ("flat_post_norm", {1: 50.0}, FAILED),
    ("slopes_in_depth", {-1: 0.5}, FAILED),
    ("pre_norm_gradients", {-2: 5.0}, FAILED),
    ("pre_norm_gradients", {-2: 1.0}, HELD),
    ("clipped_direction", {1: 0.01}, FAILED),
    ("warm_up", {3: 1.0}, FAILED),
    ("one_over_sigma", {2: 2.0}, FAILED),
    ("one_over_sigma", {3: 1.1}, FAILED),
    ("inverse_scale", {2: 2.0}, FAILED),
    ("inverse_scale", {2: 1.0}, HELD),
    ("cancelling_sum", {4: 3.0}, FAILED),
    ("gain_and_scale", {2: 0.1}, HELD),
    ("rank_of_a_norm", {2: 64}, FAILED),
    ("gain_and_bias", {3: 0.95, 5: 64}, HELD),
    ("scale_free_weight", {2: 0.5}, FAILED),
    ("scale_free_weight", {2: 0.0, 3: 1.0}, HELD),
    ("output_scale", {3: 10.0}, FAILED),
    ("constant_vector", {2: 2.0}, FAILED),
    ("constant_vector", {2: 1.0}, HELD),
    ("common_offset", {3: 0.9}, FAILED),
    ("common_offset", {3: 0.0}, HELD),
    ("centred_inputs", {2: 0.1}, FAILED),
    ("centred_inputs", {2: 0.9}, HELD),
    ("batch_of_one", {1: 0.5}, FAILED),
    ("batch_of_one", {1: 0.0, 2: 0.0}, HELD),
    ("gradient_of_one", {2: 1.0}, FAILED),
    ("gradient_of_one", {2: 0.0}, HELD),
    ("zero_padding", {1: 0.0}, FAILED),
    ("leaks_between_sequences", {1: 0.0}, FAILED),
    ("leaks_between_sequences", {2: 0.1}, HELD),
    ("drift_with_position", {1: 1.0}, FAILED),
    ("drift_with_position", {1: 2.0}, HELD),
    ("linear_part", {2: 0.1}, FAILED),
    ("linear_part", {2: 0.0}, HELD),
    ("saturation", {3: 0.5}, FAILED),
    ("saturation", {3: 0.0}, HELD),
    ("head_and_stream", {4: 1.0}, FAILED),
    ("faster_by_half", {4: -10.0}, FAILED),
    ("faster_by_half", {4: 40.0}, HELD),
)


@pytest.mark.parametrize(("name", "cells", "verdict"), TURNED)
def test_other_numbers_turn_the_verdict(name: str, cells: dict[int, float], verdict: str) -> None:
    """The table with these columns at these values, everything else as measured."""
    claim = CLAIMS_BY_NAME[name]
    rows = page_rows(name, claim.trial.lengths[1], 0)
    assert rows
    for row in rows:
        for column, value in cells.items():
            row[column] = value
    assert claim.criterion.judge(rows) == verdict


def test_every_verdict_can_turn() -> None:
    assert {name for name, *_ in TURNED} == CLAIMS_BY_NAME.keys()


CASES = Trial((8, 32), range(2)).cases


@pytest.mark.parametrize(
    ("verdicts", "joint"),
    [
        ([HELD] * 4, HELD),
        ([FAILED] * 4, FAILED),
        ([HELD, HELD, FAILED, FAILED], "held at 8 tokens only"),
        (
            [HELD, FAILED, FAILED, FAILED],
            "held at 8 tokens (1 of 2 seeds); did not hold at 8 tokens (1 of 2 seeds) and "
            "32 tokens",
        ),
        (
            ["holds only if so", "holds only if so", FAILED, FAILED],
            "holds only if so at 8 tokens; did not hold at 32 tokens",
        ),
    ],
)
def test_verdicts_of_all_trials_are_joined(verdicts: list[str], joint: str) -> None:
    assert join_verdicts(dict(zip(CASES, verdicts, strict=True))) == joint


def test_a_condition_is_named_where_the_statement_fails_without_it() -> None:
    criterion = Criterion("", lambda r: r[0][0] > 1, "so", lambda r: r[0][0] > 2)
    assert [criterion.judge([[x]]) for x in (1, 2, 3)] == [FAILED, "holds only if so", HELD]


def test_seeds_are_merged_into_ranges_and_equal_lengths_into_one_line() -> None:
    values = {case: [["a", 1.0], ["b", case.seed + case.tokens]] for case in CASES}
    assert merge_rows(values) == [
        ["8, 32", "a", "1"],
        ["8", "b", "8 to 9"],
        ["32", "b", "32 to 33"],
    ]
    assert merge_cells(["x", "y", "x"]) == "x (2), y (1)"
    assert merge_cells([0.12345, 0.12346]) == "0.123"


def test_a_seed_sets_the_weights_and_the_inputs() -> None:
    claim = CLAIMS_BY_NAME["drift_with_position"]
    first, again, other = (claim.measure(Case(8, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_the_times_are_a_processors_and_promise_nothing() -> None:
    text = " ".join(page_section("faster_by_half").split())
    assert re.search(r"on a CPU, with torch \S+ on one thread", " ".join(PAGE.split()))
    assert "no fixed saving can be claimed" in text
    assert "These times are of one machine" in text
    rows = page_rows("faster_by_half", 256, 0)
    assert [row[:2] for row in rows] == [
        [width, form] for width in (512.0, 1024.0) for form in ("fused", "written out")
    ]


@pytest.mark.parametrize("change", [("0.9", "0.8"), ("Held", "Did not hold"), ("1e-05", "1e-03")])
def test_a_difference_is_noticed(change: tuple[str, str]) -> None:
    text = "**Held.** The share is 0.9 at epsilon 1e-05 and 3 seeds."
    assert differences(text, text.replace("0.9", "0.901")) == []
    assert differences(text, text.replace(*change)) != []
