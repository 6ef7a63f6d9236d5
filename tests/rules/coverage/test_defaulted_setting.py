from __future__ import annotations

from normdiag.evidence.subject import Loading, OmittedSetting
from tests.rules.builders import evidence, found, judged, one

LOST = OmittedSetting(
    setting="use_parallel_residual",
    value="True",
    alternative="False",
    effect="layers is parallel-pre",
    alternative_effect="layers is pre",
)


def test_a_whole_configuration_is_silent() -> None:
    assert found(evidence(), "ND004") == ()


def test_what_was_taken_and_what_else_there_is() -> None:
    finding = one(evidence(subject={"loading": Loading(defaulted=(LOST,))}), "ND004")
    assert (finding.severity, finding.confidence) == ("info", "high")
    assert "use_parallel_residual is not in config.json" in finding.message
    assert "default True was taken: layers is parallel-pre; with False: layers is pre" in (
        finding.message
    )
    assert "write use_parallel_residual into config.json" in finding.advice


def test_each_setting_is_told_apart() -> None:
    both = Loading(defaulted=(LOST, LOST))
    assert len(found(evidence(subject={"loading": both}), "ND004")) == 2


def test_without_a_checkpoint_nothing_was_left_out() -> None:
    assert judged(evidence(subject={"mode": "random-init"}), "ND004").skipped
