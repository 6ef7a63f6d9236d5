from __future__ import annotations

from normdiag.evidence.subject import Loading, OmittedSetting
from tests.rules.builders import evidence, judge_rule, one, run_rule

LOST = OmittedSetting(
    setting="use_parallel_residual",
    value="True",
    alternative="False",
    effect="layers is parallel-pre",
    alternative_effect="layers is pre",
)


def test_a_whole_configuration_is_silent() -> None:
    assert run_rule(evidence(subject={"loading": Loading(defaulted=())}), "ND004") == ()


def test_what_was_taken_and_what_else_there_is() -> None:
    finding = one(evidence(subject={"loading": Loading(defaulted=(LOST,))}), "ND004")
    assert (finding.severity, finding.confidence) == ("info", "high")
    assert "config.json omits use_parallel_residual" in finding.message
    assert "default True is used: layers is parallel-pre; with False: layers is pre" in (
        finding.message
    )
    assert "add use_parallel_residual to config.json" in finding.advice


def test_each_setting_is_told_apart() -> None:
    both = Loading(defaulted=(LOST, LOST))
    assert len(run_rule(evidence(subject={"loading": both}), "ND004")) == 2


def test_without_a_search_for_defaults_it_is_skipped() -> None:
    (skip,) = judge_rule(evidence(), "ND004").skipped
    assert "add 'defaults' to --measure" in skip.why


def test_without_a_checkpoint_nothing_was_left_out() -> None:
    assert judge_rule(evidence(subject={"mode": "random-init"}), "ND004").skipped
