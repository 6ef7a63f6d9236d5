"""Every rule is registered once, named as the file that it lies in, and in order."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from normdiag import rules
from normdiag.rules.registry import FAMILIES, RULES, find_rule
from normdiag.rules.rule import Rule

FOLDER = Path(rules.__file__).parent
FILES = sorted(
    path for path in FOLDER.glob("*/*.py") if path.name != "__init__.py" and path.parent != FOLDER
)


def test_every_file_is_registered_exactly_once() -> None:
    files = [f"{path.parent.name}/{path.stem}" for path in FILES]
    registered = [f"{rule.family}/{rule.name.replace('-', '_')}" for rule in RULES]
    assert sorted(registered) == files


def test_every_rule_class_is_registered() -> None:
    for path in FILES:
        importlib.import_module(f"normdiag.rules.{path.parent.name}.{path.stem}")
    assert {type(rule) for rule in RULES} == set(Rule.__subclasses__())


def test_rules_stand_in_the_order_of_their_codes() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))


def test_the_numbers_that_are_promised() -> None:
    """Codes are permanent: baselines and `--ignore` in other people's files hold them."""
    assert {rule.code: rule.name for rule in RULES} == {
        "ND001": "incomplete-trace",
        "ND002": "replay-mismatch",
        "ND003": "weights-not-loaded",
        "ND004": "defaulted-setting",
        "ND005": "unused-module",
        "ND101": "deep-post-norm",
        "ND102": "missing-final-norm",
        "ND103": "double-final-norm",
        "ND104": "mixed-placement",
        "ND105": "batch-coupled-norm",
        "ND106": "narrow-norm",
        "ND107": "unexpected-axis",
        "ND108": "near-norm",
        "ND109": "missing-residual",
        "ND110": "raw-branch-input",
        "ND201": "dead-gain",
        "ND202": "gain-outlier",
        "ND203": "non-finite-parameter",
        "ND204": "gain-offset",
        "ND205": "epsilon-mismatch",
        "ND206": "gain-level",
        "ND207": "unit-gain",
        "ND301": "epsilon-dominates",
        "ND302": "constant-input",
        "ND303": "mean-dominated-input",
        "ND304": "massive-activation",
        "ND305": "outlier-channel",
        "ND401": "geometric-growth",
        "ND402": "silent-branch",
        "ND403": "overwriting-branch",
        "ND404": "cancelling-add",
        "ND405": "token-collapse",
        "ND406": "duplicate-layer",
        "ND501": "ill-conditioned-norm",
        "ND502": "amplifying-norm",
        "ND503": "ill-conditioned-block",
        "ND504": "attention-logit-bound",
        "ND601": "vanishing-gradient",
        "ND602": "exploding-gradient",
        "ND603": "clip-dominated",
        "ND701": "overflow-risk",
        "ND702": "square-overflow",
        "ND703": "absorbed-update",
        "ND704": "epsilon-underflow",
        "ND705": "non-finite-activation",
        "ND706": "promoted-stream",
    }


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_code_and_folder_agree(rule: Rule) -> None:
    assert rule.code[:2] == "ND" and len(rule.code) == 5 and rule.code[2:].isdigit()
    assert FAMILIES[rule.code[:3]] == rule.family


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_thresholds_are_sound(rule: Rule) -> None:
    assert len({threshold.name for threshold in rule.thresholds}) == len(rule.thresholds)
    for threshold in rule.thresholds:
        assert threshold.low <= threshold.default <= threshold.high
        assert threshold.source and threshold.meaning and threshold.unit


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_found_by_code_and_name(rule: Rule) -> None:
    for word in (rule.code, rule.code.lower(), rule.name, rule.name.upper()):
        assert find_rule(word) is rule
