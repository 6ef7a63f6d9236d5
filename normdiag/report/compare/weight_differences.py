"""Differences of parameters: gains, biases, branch weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.architecture import Norm
from normdiag.report.compare import gain_differences
from normdiag.report.compare.comparison import Difference
from normdiag.report.compare.moved_layers import MovedLayers
from normdiag.report.compare.report_pair import ReportPair, SiteDifference, fold_differences
from normdiag.report.compare.rounding import are_cast
from normdiag.report.compare.tensor_differences import are_all_tensors_equal


def find_weight_differences(sides: ReportPair, moved: MovedLayers) -> list[Difference]:
    """Find parameter differences, except in moved layers, which are reported as such."""
    norms = [(a, b) for a, b in sides.pairing.norms if not moved.is_moved(a.stack, a.layer)]
    differences = [each for a, b in norms for each in _compare_norms(sides, a, b)]
    weights = fold_differences(_compare_weights(sides, moved), "adds", len(sides.pairing.adds))
    return fold_differences(differences, "norms", len(norms)) + weights


def _compare_norms(sides: ReportPair, a: Norm, b: Norm) -> Iterator[SiteDifference]:
    gain = gain_differences.compare_gains(a, b, sides.differences.gains.get(a.id), sides.rounding)
    if gain is not None:
        yield gain
    if (a.bias_rms or 0.0) == (b.bias_rms or 0.0) == 0.0:
        return
    ids, tolerance = (a.id, b.id), sides.rounding.parameter_tolerance
    vectors = sides.differences.biases.get(a.id)
    text = "the bias differs"
    if vectors is not None:
        if vectors.max_relative > tolerance:
            detail = gain_differences.describe_largest(vectors)
            yield SiteDifference(
                "bias", "warning", ids, text, vectors.max_relative, tolerance, detail
            )
        return
    x, y = a.bias_rms or 0.0, b.bias_rms or 0.0
    if not abs(x - y) <= tolerance * max(x, y):
        detail = f"rms {x:.6g} in A, {y:.6g} in B"
        yield SiteDifference(
            "bias", "warning", ids, text, abs(x - y) / max(x, y), tolerance, detail
        )


def _compare_weights(sides: ReportPair, moved: MovedLayers) -> Iterator[SiteDifference]:
    if are_cast(sides.a, sides.b) and are_all_tensors_equal(sides):
        return  # weights of few levels are rounded with a bias, which their norm shows
    mine, theirs = sides.a.measurements.branch_weights, sides.b.measurements.branch_weights
    for a, b in sides.pairing.adds:
        x, y = mine.get(a.id), theirs.get(b.id)
        if x is None or y is None or moved.is_moved(a.stack, a.layer):
            continue
        if not sides.rounding.are_same_weights(x, y):
            size = max(x.norm, y.norm)
            by = abs(x.norm - y.norm) / size if math.isfinite(size) else math.inf
            tolerance = sides.rounding.norm_tolerance(min(x.elements, y.elements))
            detail = f"their norm is {x.norm:.6g} in A, {y.norm:.6g} in B"
            if by <= tolerance:
                detail = f"their sum is {x.sum:.6g} in A, {y.sum:.6g} in B"
            text = "the weights on the branch differ"
            yield SiteDifference("weights", "warning", (a.id, b.id), text, by, tolerance, detail)
