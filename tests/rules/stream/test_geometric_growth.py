from __future__ import annotations

from dataclasses import replace

import pytest

from normdiag.evidence.architecture import PlacementException
from normdiag.evidence.statistics import MeanMedianMax
from normdiag.evidence.stream import Growth, GrowthLeap
from tests import factories
from tests.rules.builders import evidence, judge_rule, make_adds, one, run_rule, stack

UNDECIDED = {"law": "undecided", "rate": None, "rate_error": None, "confidence": 0.5}


def grown(layers: int = 32, placement: str = "pre", sizes: list[float] | None = None, **given):
    """A stack with one add per layer; `sizes` are ||y|| of the median token."""
    law = {
        "law": "geometric",
        "rate": 1.3,
        "rate_error": 0.005,
        "confidence": 0.99,
        "total": 3000.0,
        **given,
    }
    written = make_adds(layers)
    stream = {
        add.id: factories.add_measurement(out_norm=MeanMedianMax(mean=1.0, median=size, max=1.0))
        for add, size in zip(written, sizes or [1.3**k for k in range(layers)], strict=True)
    }
    return evidence(
        stacks=(stack(layers, placement=placement),),
        adds=written,
        stream=stream,
        growth={"layers": Growth(**law)},
    )


def test_a_stream_that_multiplies() -> None:
    finding = one(grown(), "ND401")
    assert (finding.severity, finding.confidence) == ("info", "high")
    assert (finding.value, finding.threshold) == (1.3, 1.12)
    assert finding.ids == ("layers",)
    assert "grows by a factor of 1.300 per add (threshold 1.12)" in finding.message
    assert (
        "3,000 in total (of mean and median over tokens the smaller) over 32 adds (threshold 30)"
        in finding.message
    )
    assert "--site 'layers.31/add#0'" in finding.advice


@pytest.mark.parametrize(
    "healthy",
    [
        {"rate": 1.022, "total": 510.0},  # GPT-2 XL
        {"rate": 1.119},
        {"total": 29.0},
        {"rate": 2.0, "rate_error": 0.8},  # one jump that a line was laid through
        {"law": "additive"},
        {"law": "power"},
        {"law": "constant", "rate": None, "rate_error": None, "total": 1.0},
        {**UNDECIDED, "total": 20.0},
        {**UNDECIDED, "total": 31.0},  # 1.117 per add
    ],
)
def test_what_is_not_this_defect_is_silent(healthy: dict) -> None:
    assert run_rule(grown(**healthy), "ND401") == ()


@pytest.mark.parametrize(
    ("given", "severity"),
    [
        ({"rate": 1.183, "total": 2747.0}, "info"),  # the largest of 43 public models
        ({**UNDECIDED, "total": 294.9}, "info"),  # Gemma 3 270M
        ({"rate": 1.2, "total": 10001.0}, "warning"),
        ({"rate": 1.51, "rate_error": 0.004, "total": 81.0}, "warning"),  # 1.502 for sure
        ({"rate": 1.507, "rate_error": 0.004, "total": 81.0}, "info"),
        ({"total": 31.0, "placement": "none"}, "warning"),
    ],
)
def test_what_trained_models_show_is_info(given: dict, severity: str) -> None:
    seen = grown(sizes=[2.0**k for k in range(32)], **given)
    assert one(seen, "ND401").severity == severity


def test_a_warning_names_the_thresholds_of_a_warning() -> None:
    fast = one(grown(rate=1.6, total=81.0), "ND401")
    assert (fast.severity, fast.threshold) == ("warning", 1.5)
    assert (
        "81.0 in total (of mean and median over tokens the smaller) over 32 adds (threshold 30)"
        in fast.message
    )
    large = one(grown(total=2e4, sizes=[2.0**k for k in range(32)]), "ND401")
    assert "(threshold 1.12)" in large.message and "(threshold 10000)" in large.message


def test_a_guess_is_called_one() -> None:
    assert one(grown(8, sizes=[2.0**k for k in range(8)]), "ND401").confidence == "medium"
    assert one(grown(confidence=0.7), "ND401").confidence == "medium"


def test_a_few_massive_tokens_are_no_growth() -> None:
    """The mean over tokens is theirs; the median token hardly grows."""
    seen = grown(12, sizes=[3.4 * 1.12**k for k in range(12)], total=32.07)
    assert run_rule(seen, "ND401") == ()
    assert one(grown(12, sizes=[3.4 * 1.4**k for k in range(12)], total=32.07), "ND401")


class TestWithoutALaw:
    def test_steady_growth_is_reported_as_a_guess(self) -> None:
        seen = grown(8, sizes=[2.0**k for k in range(8)], **{**UNDECIDED, "total": 128.0})
        finding = one(seen, "ND401")
        assert finding.value == pytest.approx(2.0) and finding.confidence == "low"
        assert "grows by a factor of 2.00 per add" in finding.message
        assert finding.message.endswith("; the mean factor, the law is undecided")

    def test_a_single_jump_is_no_growth_per_layer(self) -> None:
        seen = grown(8, sizes=[1.0] * 7 + [5833.0], **{**UNDECIDED, "total": 5833.0})
        assert run_rule(seen, "ND401") == ()

    @pytest.mark.parametrize("first", [0.0, float("nan")])
    def test_a_stream_that_starts_at_nothing_is_no_growth_per_layer(self, first: float) -> None:
        seen = grown(4, sizes=[first, 1.0, 2.0, 4.0], **{**UNDECIDED, "total": 1e6})
        assert run_rule(seen, "ND401") == ()

    def test_one_add_has_no_law(self) -> None:
        assert run_rule(grown(1, sizes=[1.0], **{**UNDECIDED, "total": 100.0}), "ND401") == ()


def test_without_norms_the_advice_is_a_norm() -> None:
    finding = one(grown(placement="none"), "ND401")
    assert finding.message.startswith("no branch has a norm")
    assert finding.advice.startswith("normalise the branch inputs")


def test_growth_that_trained_models_show_needs_no_remedy() -> None:
    assert one(grown(), "ND401").advice.startswith("expected in trained models; it matters for")
    severe = one(grown(total=2e4, sizes=[2.0**k for k in range(32)]), "ND401")
    assert severe.advice.startswith("look for a missing branch scale")


def test_a_leap_is_no_part_of_the_total() -> None:
    leap = GrowthLeap(add="layers.5/add#0", factor=4.0)
    finding = one(grown(leaps=(leap,), sizes=[2.0**k for k in range(32)]), "ND401")
    assert (
        "750 in total apart from leaps (of mean and median over tokens the smaller) over 32 adds"
        in finding.message
    )


def test_a_stack_with_an_exception_has_a_norm() -> None:
    bare = grown(placement="none")
    named = PlacementException(layer=3, add="layers.3/add#0", placement="pre")
    (one_stack,) = bare.architecture.stacks
    stacks = (replace(one_stack, exceptions=(named,)),)
    seen = replace(bare, architecture=replace(bare.architecture, stacks=stacks))
    assert one(bare, "ND401").severity == "warning"
    assert one(seen, "ND401").severity == "info"


def test_the_thresholds_can_be_set() -> None:
    assert run_rule(grown(), "ND401", rate=1.4) == ()
    assert run_rule(grown(), "ND401", total_notable=1e4) == ()
    assert one(grown(), "ND401", total=2999.0).severity == "warning"
    assert one(grown(rate=1.05, rate_error=0.001, total=5.0), "ND401", rate=1.04, total_notable=4)


def test_values_that_are_not_finite_have_no_law() -> None:
    seen = evidence(
        stacks=(stack(1),),
        adds=make_adds(1),
        stream={"layers.0/add#0": factories.add_measurement()},
    )
    judgement = judge_rule(seen, "ND401")
    assert judgement.passed == () and "no growth law can be fitted" in judgement.skipped[0].why
