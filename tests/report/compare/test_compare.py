"""Two fabricated reports compared, without torch: what is named, how grave, in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from normdiag.errors import UsageError
from normdiag.evidence.architecture import Scale
from normdiag.evidence.branch_weights import BranchWeights
from normdiag.evidence.gains import Gain
from normdiag.findings import Finding, SkippedRule
from normdiag.report.compare.compare import compare_reports
from normdiag.report.report import Report
from tests import hostile, reports
from tests.factories import INF, add_measurement, norm

GAIN = Gain(rms=0.9, min_abs=0.02, max_abs=2.4, zeros=0, nonfinite=0, mean=0.8)


def llama(layers: int = 4) -> Report:
    """With the means of gains, as reports have them."""
    return with_norms(reports.llama(layers), lambda each: replace(each, gain=GAIN))


def with_norms(report: Report, change: Callable[[Any], Any]) -> Report:
    changed = (change(each) for each in report.architecture.norms)
    norms = tuple(each for each in changed if each is not None)
    return replace(report, architecture=replace(report.architecture, norms=norms))


def with_adds(report: Report, change: Callable[[Any], Any]) -> Report:
    adds = tuple(map(change, report.architecture.residual_adds))
    return replace(report, architecture=replace(report.architecture, residual_adds=adds))


def with_stack(report: Report, **fields: Any) -> Report:
    stacks = tuple(replace(each, **fields) for each in report.architecture.stacks)
    return replace(report, architecture=replace(report.architecture, stacks=stacks))


def with_stream(report: Report, **of_site: Any) -> Report:
    stream = report.measurements.stream | of_site
    return replace(report, measurements=replace(report.measurements, stream=stream))


def at(id: str, **fields: Any) -> Callable[[Any], Any]:
    return lambda each: replace(each, **fields) if each.id == id else each


def describe_comparison(a: Report, b: Report) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(d.kind, d.severity, d.a or d.b) for d in compare_reports(a, b).differences]


@pytest.mark.parametrize("make", [llama, reports.bert, reports.encoder_decoder, hostile.broken])
def test_a_report_does_not_differ_from_itself(make: Callable[[], Report]) -> None:
    comparison = compare_reports(make(), make())
    assert comparison.differences == comparison.changes == ()
    assert comparison.basis == "summaries"
    assert comparison.paired_by == "id"


FIRST = "model.layers.1.input_layernorm"
STRUCTURE = [
    (lambda r: with_norms(r, at(FIRST, eps=1e-6)), ("epsilon", "error", (FIRST,))),
    (lambda r: with_norms(r, at(FIRST, eps=None)), ("epsilon", "error", (FIRST,))),
    (lambda r: with_norms(r, at(FIRST, kind="layernorm")), ("norm", "error", (FIRST,))),
    (lambda r: with_norms(r, at(FIRST, features=288)), ("norm", "error", (FIRST,))),
    (lambda r: with_norms(r, at(FIRST, gain=None)), ("gain", "error", (FIRST,))),
    (lambda r: with_norms(r, at(FIRST, bias_rms=0.1)), ("bias", "warning", (FIRST,))),
    (
        lambda r: with_norms(r, lambda each: None if each.id == "model.norm" else each),
        ("missing-norm", "error", ("model.norm",)),
    ),
    (
        lambda r: with_adds(r, at("model.layers.2/add#1", placement="post")),
        ("placement", "error", ("model.layers.2/add#1",)),
    ),
    (
        lambda r: with_adds(r, at("model.layers.2/add#1", branches=2)),
        ("placement", "error", ("model.layers.2/add#1",)),
    ),
    (
        lambda r: with_adds(
            r, at("model.layers.0/add#0", branch_scale=Scale(kind="constant", value=0.5))
        ),
        ("scale", "error", ("model.layers.0/add#0",)),
    ),
    (
        lambda r: with_adds(
            r, at("model.layers.0/add#0", branch_scale=Scale(kind="learned", rms=0.5))
        ),
        ("scale", "warning", ("model.layers.0/add#0",)),
    ),
    (lambda r: with_stack(r, width=640), ("width", "error", ("model.layers",))),
    (
        lambda r: with_stack(r, residual_adds_per_layer=3),
        ("layers", "error", ("model.layers",)),
    ),
]


@pytest.mark.parametrize(("change", "expected"), STRUCTURE)
def test_structure_and_parameters(change: Callable[[Report], Report], expected: Any) -> None:
    assert describe_comparison(llama(), change(llama())) == [expected]
    back = describe_comparison(change(llama()), llama())
    assert back == [expected]


def test_a_scale_of_one_is_none_and_a_gain_of_ones_is_none() -> None:
    one = Scale(kind="constant", value=1.0)
    scaled = with_adds(llama(), lambda each: replace(each, branch_scale=one))
    assert describe_comparison(llama(), scaled) == []
    ones = Gain(rms=1.0, min_abs=1.0, max_abs=1.0, zeros=0, nonfinite=0, mean=1.0)
    plain = with_norms(llama(), at(FIRST, gain=None))
    assert describe_comparison(plain, with_norms(llama(), at(FIRST, gain=ones))) == []


GAINS = [
    (replace(GAIN, rms=(GAIN.rms**2 + 2 * 0.8 + 1) ** 0.5, mean=1.8, max_abs=3.4), "gain-offset"),
    (replace(GAIN, rms=1.8, mean=1.6, max_abs=4.8, min_abs=0.04), "gain-factor"),
    (replace(GAIN, mean=-0.8), "gain-factor"),
    (replace(GAIN, max_abs=2.5), "gain"),
    (replace(GAIN, nonfinite=1), "gain"),
    (replace(GAIN, rms=0.9 * (1 + 1e-8)), None),
]


@pytest.mark.parametrize(("gain", "kind"), GAINS)
def test_in_what_way_a_gain_differs(gain: Gain, kind: str | None) -> None:
    found = [
        each[0] for each in describe_comparison(llama(), with_norms(llama(), at(FIRST, gain=gain)))
    ]
    assert found == ([] if kind is None else [kind])


def test_a_gain_that_is_not_finite_is_told_as_such() -> None:
    broken = with_norms(llama(), at(FIRST, gain=replace(GAIN, nonfinite=2)))
    (found,) = compare_reports(llama(), broken).differences
    assert f"rms {GAIN.rms:.6g} in A, rms {GAIN.rms:.6g} and 2 not finite in B" in found.message


def test_what_half_precision_rounds_is_no_difference() -> None:
    gain = replace(GAIN, rms=GAIN.rms * (1 + 3e-4))
    cast = with_norms(llama(), at(FIRST, gain=gain))
    assert [each[0] for each in describe_comparison(llama(), cast)] == ["gain"]
    half = replace(cast, subject=replace(cast.subject, dtype="float16"))
    comparison = compare_reports(llama(), half)
    assert comparison.differences == ()
    assert comparison.dtype == "float16"


def test_the_same_at_all_sites_is_one_difference() -> None:
    every = with_norms(llama(), lambda each: replace(each, eps=1e-6))
    (difference,) = compare_reports(llama(), every).differences
    assert len(difference.a) == 9
    assert difference.message == (
        "epsilon is 1e-05 in A and 1e-06 in B at all 9 norms, first at "
        "model.layers.0.input_layernorm"
    )


def test_causes_come_in_the_order_of_the_forward() -> None:
    late, early = "model.layers.3.input_layernorm", "model.layers.1.post_attention_layernorm"
    other = with_norms(llama(), at(late, eps=1e-6))
    other = with_norms(other, at(early, gain=replace(GAIN, max_abs=3.0)))
    other = with_norms(other, at("model.norm", kind="layernorm"))
    assert [each[2][0] for each in describe_comparison(llama(), other)] == [
        early,
        late,
        "model.norm",
    ]
    assert compare_reports(llama(), other).headline.startswith(f"the gain differs at {early}")
    assert "(and 2 more differences)" in compare_reports(llama(), other).headline


class TestTheStream:
    """From the lengths that reports hold."""

    SITE = "model.layers.2/add#0"

    def test_where_it_parts(self) -> None:
        size = llama().measurements.stream[self.SITE].out_norm.median
        other = with_stream(llama(), **{self.SITE: add_measurement(1.01 * size, 0.5)})
        part = compare_reports(llama(), other).first_divergence
        assert part is not None
        assert (part.a, part.b) == (self.SITE, self.SITE)
        assert part.out == pytest.approx(0.01)

    def test_one_token_that_is_far_off_is_enough(self) -> None:
        seen = llama().measurements.stream[self.SITE]
        longest = replace(seen.out_norm, max=1.1 * seen.out_norm.max)
        other = with_stream(llama(), **{self.SITE: replace(seen, out_norm=longest)})
        part = compare_reports(llama(), other).first_divergence
        assert part is not None
        assert (part.a, part.where) == (self.SITE, "out")
        assert part.error == part.out == pytest.approx(0.1)
        near = replace(seen.out_norm, max=(1 + 1e-4) * seen.out_norm.max)
        other = with_stream(llama(), **{self.SITE: replace(seen, out_norm=near)})
        assert compare_reports(llama(), other).first_divergence is None

    def test_a_multiple_is_called_one(self) -> None:
        seen = llama().measurements.stream[self.SITE]
        branch = replace(
            seen.branch_norm,
            mean=3 * seen.branch_norm.mean,
            median=3 * seen.branch_norm.median,
            max=3 * seen.branch_norm.max,
        )
        out = replace(seen.out_norm, median=1.2 * seen.out_norm.median)
        other = with_stream(llama(), **{self.SITE: replace(seen, branch_norm=branch, out_norm=out)})
        (difference,) = compare_reports(llama(), other).differences
        assert difference.kind == "stream-factor"
        assert difference.message == f"the branch of {self.SITE} is 3 times as large in B as in A"

    def test_of_one_that_is_not_finite(self) -> None:
        lost = add_measurement(INF, max_abs=INF)
        comparison = compare_reports(llama(), with_stream(llama(), **{self.SITE: lost}))
        assert [d.kind for d in comparison.differences] == ["non-finite", "stream"]
        assert comparison.first_divergence is not None
        assert comparison.first_divergence.out == INF
        turned = compare_reports(with_stream(llama(), **{self.SITE: lost}), llama())
        assert "the stream of A is not finite" in turned.differences[0].message
        both = with_stream(llama(), **{self.SITE: lost})
        assert compare_reports(both, both).differences == ()

    def test_other_texts_are_not_compared(self) -> None:
        other = llama()
        probe = replace(other.subject.probe, texts=("a", "b", "d"))
        other = replace(other, subject=replace(other.subject, probe=probe))
        comparison = compare_reports(llama(), other)
        assert (comparison.basis, comparison.stream) == ("structure", ())
        assert "A was run on 3 sequences" in str(comparison.note)

    def test_equal_digests_are_equal_inputs(self) -> None:
        def of(digest: str, **fields: Any) -> Report:
            report = llama()
            probe = replace(report.subject.probe, digest=digest, **fields)
            return replace(report, subject=replace(report.subject, probe=probe))

        assert compare_reports(of("a"), of("a", texts=())).basis == "summaries"
        assert compare_reports(of("a"), of("b")).basis == "structure"


class TestLayers:
    """Stacks of different depth."""

    def test_the_first_ones_are_compared_where_nothing_tells_them_apart(self) -> None:
        comparison = compare_reports(llama(4), llama(6))
        assert [d.kind for d in comparison.differences] == ["layers"]
        assert "4 layers in A and 6 in B: layers 4, 5 of B without" in comparison.headline
        assert len(comparison.stream) == 8

    def test_another_number_of_adds_is_told_beside_them(self) -> None:
        other = with_stack(llama(6), residual_adds_per_layer=1)
        messages = [d.message for d in compare_reports(llama(4), other).differences]
        assert messages[1] == "each layer of model.layers has 2 residual adds in A and 1 in B"

    def test_other_models(self) -> None:
        kinds = {kind for kind, *_ in describe_comparison(reports.llama(3), reports.bert())}
        assert kinds >= {"width", "placement", "norm", "epsilon", "missing-norm"}

    def test_a_stack_that_one_alone_has(self) -> None:
        one = with_stack(llama(), read_by="head")
        (stack,) = one.architecture.stacks
        more = replace(
            one,
            architecture=replace(one.architecture, stacks=(stack, replace(stack, id="vision"))),
        )
        assert ("stacks", "error", ("vision",)) in describe_comparison(one, more)
        assert ("stacks", "error", ("vision",)) in describe_comparison(more, one)


class TestMovedLayers:
    """Found by what they hold."""

    @staticmethod
    def of(*norms: float) -> Report:
        """A model whose layers hold weights of these norms."""
        report = llama(len(norms))
        held = {
            add.id: BranchWeights(elements=1000, norm=norms[add.layer], sum=0.1 * norms[add.layer])
            for add in report.architecture.residual_adds
        }
        measurements = replace(report.measurements, branch_weights=held)
        return replace(report, measurements=measurements)

    def said(self, a: Report, b: Report) -> list[tuple[str, str]]:
        return [(d.kind, d.message.partition(" at ")[0]) for d in compare_reports(a, b).differences]

    def test_a_swap_is_told_once(self) -> None:
        a, b = self.of(1, 2, 3, 4), self.of(1, 4, 3, 2)
        message = (
            "layers 1 and 3 of model.layers are swapped in B: each has the weights of the other"
        )
        assert self.said(a, b) == [("moved-layers", message)]

    def test_a_shift_is_told_layer_by_layer(self) -> None:
        found = self.said(self.of(1, 2, 3), self.of(3, 1, 2))
        assert [kind for kind, _ in found] == ["moved-layers"] * 3
        assert found[0][1] == "layer 0 of model.layers in B has the weights of layer 2 in A"

    def test_a_copy_is_no_swap(self) -> None:
        found = self.said(self.of(1, 2, 3), self.of(1, 2, 1))
        message = "layer 2 of model.layers in B has the weights of layer 0 in A"
        assert found == [("moved-layers", message)]

    def test_of_equal_layers_nothing_is_claimed(self) -> None:
        found = self.said(self.of(1, 1, 2), self.of(1, 1, 1))
        assert found == [("weights", "the weights on the branch differ")]

    def test_a_layer_in_the_middle_that_is_gone(self) -> None:
        comparison = compare_reports(self.of(1, 2, 3, 4), self.of(1, 3, 4))
        (difference,) = comparison.differences[:1]
        assert difference.message == (
            "model.layers has 4 layers in A and 3 in B: layer 1 of A without counterpart, aligned "
            "by content"
        )
        pairs = {site.a: site.b for site in comparison.stream}
        assert pairs["model.layers.2/add#0"] == "model.layers.1/add#0"
        assert "model.layers.1/add#0" not in pairs

    def test_weights_whose_sum_alone_differs(self) -> None:
        a, b = self.of(1, 2), self.of(1, 2)
        held = b.measurements.branch_weights
        held["model.layers.1/add#1"] = replace(held["model.layers.1/add#1"], sum=0.3)
        (difference,) = compare_reports(a, b).differences
        assert difference.a == ("model.layers.1/add#1",)
        assert difference.message.endswith("(their sum is 0.2 in A, 0.3 in B)")


def finding(code: str, *ids: str, **fields: Any) -> Finding:
    given = {
        "name": "some-defect",
        "severity": "warning",
        "confidence": "high",
        "message": "so",
        "value": 10.0,
        "threshold": 5.0,
        "advice": "this",
    }
    return Finding(code=code, ids=ids, **{**given, **fields})


def test_what_became_of_the_findings() -> None:
    known, gone = finding("ND301", FIRST), finding("ND302", FIRST)
    worse, new = finding("ND304", FIRST), finding("ND401", "model.layers", severity="error")
    unclear = finding("ND501", FIRST)
    a = replace(llama(), findings=(known, gone, worse, unclear))
    b = replace(llama(), findings=(known, replace(worse, value=20.0), new))
    skip = SkippedRule(code="ND501", name="x", why="not measured")
    b = replace(b, rules=replace(b.rules, skipped=(skip,)))
    comparison = compare_reports(a, b)
    found = [(each.state, each.finding.code) for each in comparison.changes]
    assert found == [("worse", "ND304"), ("new", "ND401"), ("gone", "ND302")]
    assert comparison.skipped_rules == (skip,)
    assert comparison.changed_severities == {"warning", "error"}
    assert compare_reports(b, a).changed_severities == {"warning"}


def test_findings_follow_their_sites_into_other_names() -> None:
    def renamed(report: Report) -> Report:
        text = report.to_dict()

        def rename(value: Any) -> Any:
            if isinstance(value, dict):
                return {rename(key): rename(item) for key, item in value.items()}
            if isinstance(value, list):
                return [rename(item) for item in value]
            if isinstance(value, str):
                return value.replace("model.layers", "ported.h").replace("layernorm", "ln")
            return value

        from normdiag.report import v1

        return v1._type_adapter(Report).validate_python(rename(text))

    comparison = compare_reports(llama(), renamed(llama()))
    assert comparison.paired_by == "position"
    assert comparison.differences == comparison.changes == ()
    assert comparison.stream[3].b == "ported.h.1/add#1"


def test_a_report_without_structure_is_refused() -> None:
    with pytest.raises(UsageError, match=r"B \(\./quantised\) has no structure"):
        compare_reports(llama(), reports.weights_only())


def test_a_norm_of_no_stack_is_paired_by_its_name() -> None:
    def more(eps: float) -> Report:
        report = llama()
        lone = norm("pooler.norm", "unattached", eps=eps)
        norms = (*report.architecture.norms, lone)
        return replace(report, architecture=replace(report.architecture, norms=norms))

    assert describe_comparison(more(1e-5), more(1e-6)) == [("epsilon", "error", ("pooler.norm",))]
