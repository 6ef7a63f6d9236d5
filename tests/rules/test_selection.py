"""Rules are named by code, name or prefix; a word that fits none is an error that helps."""

from __future__ import annotations

import pytest

from normdiag.errors import ExitCode, UsageError
from normdiag.rules.registry import RULES, match_rules, select_rules


def codes(*args, **kwargs) -> list[str]:
    return [rule.code for rule in select_rules(*args, **kwargs)]


def test_nothing_selected_is_everything() -> None:
    assert select_rules() == RULES


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("ND301", ["ND301"]),
        ("nd301", ["ND301"]),
        ("epsilon-dominates", ["ND301"]),
        ("Epsilon-Dominates", ["ND301"]),
        ("ND3", ["ND301", "ND302", "ND303", "ND304", "ND305"]),
        ("ND30", ["ND301", "ND302", "ND303", "ND304", "ND305"]),
        ("ND", [rule.code for rule in RULES]),
    ],
)
def test_selectors(selector: str, expected: list[str]) -> None:
    assert codes([selector]) == expected


def test_selectors_add_up_in_the_order_of_codes() -> None:
    placement = [rule.code for rule in RULES if rule.code.startswith("ND1")]
    assert codes(["geometric-growth", "ND1", "ND101"]) == [*placement, "ND401"]


def test_ignore_takes_away() -> None:
    assert codes(["ND3"], ignore=["constant-input"]) == ["ND301", "ND303", "ND304", "ND305"]
    assert codes(ignore=["ND"]) == []
    assert codes(["ND301"], ignore=["ND3"]) == []


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("epsilon-dominate", "epsilon-dominates"),
        ("ND310", "ND301"),
        ("growth", "geometric-growth"),
        ("growht", "geometric-growth"),
        ("epsilon", "epsilon-dominates, epsilon-underflow"),
        ("MASSIVE-ACTIVATIONS", "massive-activation"),
    ],
)
@pytest.mark.parametrize("argument", ["select", "ignore"])
def test_an_unknown_word_names_the_near_ones(wrong: str, meant: str, argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        select_rules(**{argument: [wrong]})
    assert caught.value.exit_code is ExitCode.USAGE
    assert repr(wrong) in caught.value.what
    assert meant in (caught.value.hint or "")


@pytest.mark.parametrize("wrong", ["", "N", "ND9", "zzz", "ND301x", "*"])
def test_what_fits_nothing_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError):
        match_rules(wrong)
