from __future__ import annotations

import math
import sys

import pytest

from normdiag.evidence.nonfinite import FirstNonFinite
from normdiag.evidence.precision import InnerPeak, Remedy
from normdiag.evidence.statistics import MedianMax
from tests.rules.builders import one, run_rule
from tests.rules.precision.formats import make_evidence, values_at

PRODUCT = "layers.2.mlp/product#0"


@pytest.mark.parametrize(
    ("run", "stored", "severity"),
    [
        ("float32", "float32", "info"),
        ("bfloat16", "bfloat16", "info"),
        ("float32", "bfloat16", "info"),
        ("float32", "float16", "warning"),
        ("float16", "float16", "warning"),
        ("float16", "float32", "warning"),
    ],
)
def test_a_warning_only_for_a_model_of_float16(run: str, stored: str, severity: str) -> None:
    finding = one(
        make_evidence(run=run, stored=stored, max_abs=values_at(5, value=65505.0)), "ND701"
    )
    assert finding.severity == severity


def test_the_first_and_the_largest_are_named() -> None:
    sizes = (
        values_at(5, value=71992.0) | values_at(6, 7, value=83972.0) | values_at(4, value=59992.0)
    )
    finding = one(make_evidence(max_abs=dict(sorted(sizes.items()))), "ND701")
    assert (finding.value, finding.threshold) == (83972.0, 65504.0)
    assert finding.ids == ("layers.6/add#0", "layers.7/add#0", "layers.5/add#0")
    assert finding.message == (
        "max |value| is 71,992 (1.099× 65504, the largest float16) at layers.5/add#0, layer 5, up "
        "to 83,972 at layers.6/add#0; 3 sites in all, layers 5-7 of layers"
    )


def test_the_last_number_fits() -> None:
    assert run_rule(make_evidence(max_abs=values_at(5, value=65504.0)), "ND701") == ()
    assert run_rule(make_evidence(max_abs=values_at(5, value=65505.0)), "ND701", headroom=0.5) == ()


def make_peak(value: float) -> InnerPeak:
    return InnerPeak(
        id=PRODUCT,
        module="layers.2.mlp",
        kind="product",
        number=0,
        add="layers.2/add#0",
        value=value,
        dtype="float32",
    )


def test_every_headroom_of_the_range_can_be_set() -> None:
    seen = make_evidence(
        run="float16", max_abs=values_at(5, value=65505.0), inner_peaks=(make_peak(9e4),)
    )
    assert run_rule(seen, "ND701", headroom=0.0, headroom_notable=0.0) == ()
    assert len(run_rule(seen, "ND701", headroom=sys.float_info.max)) == 2


class TestLittleLeft:
    def test_is_told_of_a_float16_model_alone(self) -> None:
        sizes = values_at(3, value=40000.0)
        assert one(make_evidence(run="float16", max_abs=sizes), "ND701").severity == "info"
        assert run_rule(make_evidence(max_abs=sizes), "ND701") == ()
        assert (
            run_rule(make_evidence(run="float16", max_abs=sizes), "ND701", headroom_notable=1.5)
            == ()
        )

    def test_is_not_told_where_the_run_has_overflowed(self) -> None:
        first = FirstNonFinite(
            operation="add", module="layers.4", line=None, site="layers.4/add#0", layer=4,
            kind="inf", count=8, operands=(), exact_max=7e4,
        )  # fmt: skip
        sizes = values_at(3, value=60000.0) | values_at(4, value=math.inf)
        assert (
            run_rule(make_evidence(run="float16", max_abs=sizes, first_nonfinite=first), "ND701")
            == ()
        )


def make_remedy(**given) -> str:
    half = {"remedies": {"layers": Remedy(layer=5, **given)}}
    return one(make_evidence(half=half, max_abs=values_at(5, value=1e5)), "ND701").advice


def test_the_remedy_is_a_number() -> None:
    advice = make_remedy(factor=0.25, eps_share=MedianMax(median=0.001, max=0.0018))
    assert "all branch outputs of layers by 0.25 = 2^-2" in advice
    assert "eps share at most 0.00180; unchanged with epsilon times 2^-4" in advice
    assert "in float32 from layer 5 on" in advice


def test_where_the_stream_has_other_readers_it_stays_in_float32() -> None:
    advice = make_remedy(factor=None, eps_share=None)
    assert "2^" not in advice and "in float32 from layer 5 on" in advice


def test_a_product_inside_a_branch_has_its_own_remedy() -> None:
    finding = one(make_evidence(inner_peaks=(make_peak(300000.0),)), "ND701")
    assert finding.ids == (PRODUCT,) and "4.58× 65504" in finding.message
    assert "2^-4" in finding.advice
    assert 300000 * 2 / 2**4 <= 65504 < 300000 * 2 / 2**3
