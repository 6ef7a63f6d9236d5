from __future__ import annotations

import math

import pytest

from normdiag.evidence.nonfinite import FirstNonFinite
from normdiag.evidence.replay import HalfStatistic, Replay
from normdiag.evidence.stream import Closure
from tests.rules.builders import evidence, make_adds, norms, one, run_rule, stack

BUILT = {"norms": norms(), "adds": make_adds(), "stacks": (stack(),)}
NAN = FirstNonFinite(
    operation="mul",
    module="layers.3",
    line=None,
    site=None,
    layer=3,
    kind="nan",
    count=1,
    operands=(),
    exact_max=None,
)


def make_replay(errors: dict[str, float], closure: float = 0.0, **given):
    return evidence(
        **BUILT,
        replay={site: Replay(max_rel_error=error) for site, error in errors.items()},
        closure={"layers": Closure(max_rel_error=closure, layer=7)},
        **given,
    )


def test_rounding_is_silent() -> None:
    assert (
        run_rule(make_replay({"layers.3.norm": 1e-6, "layers.4/add#0": 9e-5}, 1e-6), "ND002") == ()
    )


def test_sites_that_do_not_replay_become_one_finding_worst_first() -> None:
    finding = one(
        make_replay({"layers.3.norm": 1e-3, "layers.4.norm": 0.5, "layers.5/add#0": 1e-2}), "ND002"
    )
    assert finding.ids == ("layers.4.norm", "layers.5/add#0", "layers.3.norm")
    assert (finding.severity, finding.value, finding.threshold) == ("warning", 0.5, 1e-4)
    assert "replay differs at 3 sites" in finding.message
    assert "layers 3-5 of layers" in finding.message


def test_one_site_is_named() -> None:
    finding = one(make_replay({"layers.3.norm": 1e-3}), "ND002")
    assert "replay differs at 1 site" in finding.message and "layers.3.norm" in finding.message


def test_a_stack_that_does_not_close_names_the_layer() -> None:
    finding = one(make_replay({}, closure=0.25), "ND002")
    assert finding.ids == ("layers",) and finding.value == 0.25
    assert "x_in + Σ u differs from x_out, largest in layer 7" in finding.message


@pytest.mark.parametrize(
    ("dtype", "limit"),
    [
        ("float64", 1e-4),
        ("float32", 1e-4),
        ("torch.float32", 1e-4),
        ("float16", 1e-2),
        ("bfloat16", 5e-2),
        ("float8_e4m3fn", 5e-2),
        (None, 5e-2),
    ],
)
def test_the_tolerance_is_that_of_the_number_format(dtype: str | None, limit: float) -> None:
    subject = {"dtype": dtype}
    assert run_rule(make_replay({"layers.3.norm": limit * 0.9}, subject=subject), "ND002") == ()
    finding = one(make_replay({"layers.3.norm": limit * 1.1}, subject=subject), "ND002")
    assert finding.threshold == limit


def test_the_tolerance_can_be_set() -> None:
    assert run_rule(make_replay({"layers.3.norm": 0.3}), "ND002", float32=0.5) == ()


@pytest.mark.parametrize("error", [math.nan, math.inf])
def test_a_nan_is_the_finding_of_another_rule_where_it_was_located(error: float) -> None:
    assert (
        run_rule(make_replay({"layers.3.norm": error}, error, first_nonfinite=NAN), "ND002") == ()
    )


@pytest.mark.parametrize("error", [math.nan, math.inf])
def test_a_nan_that_was_not_located_is_not_passed_over(error: float) -> None:
    assert len(run_rule(make_replay({"layers.3.norm": error}, error), "ND002")) == 2


def make_half(kind: str, value: float, computed: float | None, error: float) -> Replay:
    half = HalfStatistic(kind=kind, value=value, computed=computed, max_rel_error=error)
    return Replay(max_rel_error=2.5, half_statistic=half)


def judge_half(**replay: Replay):
    sites = {f"layers.{name[1:]}.norm": each for name, each in replay.items()}
    return run_rule(evidence(**BUILT, replay=sites, subject={"dtype": "float16"}), "ND002")


def test_a_sum_beyond_float16_is_the_cause_and_no_hook() -> None:
    (finding,) = judge_half(
        n3=make_half("sum-overflow", 81234.0, None, 1e-3),
        n4=make_half("sum-overflow", 70000.0, None, 1e-3),
    )
    assert finding.ids == ("layers.3.norm", "layers.4.norm")
    assert "the sum of squares at layers.3.norm reaches 81,234, above 65504" in finding.message
    assert "replayed in float64 it is 2.50 (threshold 0.01)" in finding.message
    assert "float32" in finding.advice and "hook" not in finding.advice


def test_a_mean_square_below_a_step_is_the_cause() -> None:
    (finding,) = judge_half(n3=make_half("square-underflow", 3.1e-8, 2.0**-24, 2e-3))
    assert "is 3.10e-8 and becomes 5.96e-8 in float16" in finding.message
    assert "kernel" not in finding.advice


def test_a_statistic_that_does_not_reproduce_the_output_is_no_cause() -> None:
    kernel, arithmetic = sorted(
        judge_half(
            n3=make_half("sum-overflow", 81234.0, None, 0.3),
            n5=make_half("square-underflow", 3.1e-8, 2.0**-24, 2e-3),
        ),
        key=lambda finding: finding.ids,
    )
    assert kernel.ids == ("layers.3.norm",) and "hook" in kernel.advice
    assert arithmetic.ids == ("layers.5.norm",) and "hook" not in arithmetic.advice
