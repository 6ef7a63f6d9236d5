"""How two gains differ: by the 1 of `1 + w`, by a factor, or in single channels."""

from __future__ import annotations

import math

from normdiag.evidence.architecture import Norm
from normdiag.evidence.differences import VectorDifference
from normdiag.evidence.gains import Gain
from normdiag.number_text import format_number
from normdiag.report.compare.report_pair import SiteDifference
from normdiag.report.compare.rounding import Rounding


def compare_gains(
    a: Norm, b: Norm, measured: VectorDifference | None, rounding: Rounding
) -> SiteDifference | None:
    """Compare two gains; None where they are equal within rounding. A missing gain counts as
    ones."""
    ids, tolerance = (a.id, b.id), rounding.parameter_tolerance
    x, y = a.gain, b.gain
    if x is None or y is None:
        single = x or y
        if single is None or _is_ones(single):
            return None
        has, has_not = ("A", "B") if y is None else ("B", "A")
        text = f"{has} has a gain and {has_not} has none"
        return SiteDifference("gain", "error", ids, text, detail=f"rms {single.rms:.6g}")
    if measured is None:
        difference = _relative_difference(x, y)
        detail = f"{_format_rms(x)} in A, {_format_rms(y)} in B"
    else:
        difference, detail = measured.max_relative, describe_largest(measured)
    if difference <= tolerance:
        return None
    if _is_shifted(x, y, tolerance):
        more, less = ("B", "A") if (y.mean or 0.0) > (x.mean or 0.0) else ("A", "B")
        text = f"the gain is larger by just 1 in {more} than in {less}, as with the 1 of 1 + w"
        return SiteDifference("gain-offset", "error", ids, text, difference, tolerance, detail)
    factor = _scale_factor(x, y, tolerance)
    if factor is not None:
        text = f"the gain of B is {factor:.6g} times that of A"
        return SiteDifference("gain-factor", "warning", ids, text, difference, tolerance, detail)
    return SiteDifference("gain", "warning", ids, "the gain differs", difference, tolerance, detail)


def describe_largest(measured: VectorDifference) -> str:
    """Describe the channel where two vectors differ most."""
    return (
        f"max relative difference {format_number(measured.max_relative)} at channel "
        f"{measured.channel}: {measured.a:.6g} in A, {measured.b:.6g} in B"
    )


def _format_rms(gain: Gain) -> str:
    lost = f" and {gain.nonfinite} not finite" if gain.nonfinite else ""
    return f"rms {gain.rms:.6g}{lost}"


def _is_ones(gain: Gain) -> bool:
    return gain.min_abs == gain.max_abs == 1.0 and not gain.negatives and not gain.nonfinite


def _relative_difference(x: Gain, y: Gain) -> float:
    """The largest difference of the summaries, relative to the rms (of max_abs, to itself)."""
    if x.nonfinite != y.nonfinite:
        return math.inf
    size = max(x.rms, y.rms)
    numbers = [(x.rms, y.rms), (x.min_abs, y.min_abs)]
    if x.mean is not None and y.mean is not None:
        numbers.append((x.mean, y.mean))
    relative = [abs(p - q) / size if size else 0.0 for p, q in numbers]
    top = max(x.max_abs, y.max_abs)
    largest = max(*relative, abs(x.max_abs - y.max_abs) / top if top else 0.0)
    return 0.0 if math.isnan(largest) else largest


def _is_shifted(x: Gain, y: Gain, tolerance: float) -> bool:
    """Whether the means differ by 1 and the variances do not."""
    if x.mean is None or y.mean is None:
        return False
    size = max(x.rms, y.rms, 1.0)
    spread = (x.rms**2 - x.mean**2) - (y.rms**2 - y.mean**2)
    is_one = abs(abs(x.mean - y.mean) - 1.0) <= tolerance * size
    return is_one and abs(spread) <= 2 * tolerance * size**2


def _scale_factor(x: Gain, y: Gain, tolerance: float) -> float | None:
    """Return c where all summaries agree with y = c x."""
    if not (x.rms > 0 and y.rms > 0 and x.mean is not None and y.mean is not None):
        return None
    factor = y.rms / x.rms * (-1.0 if x.mean * y.mean < 0 else 1.0)
    numbers = [(x.max_abs, y.max_abs), (x.min_abs, y.min_abs)]
    pairs = [(abs(factor) * p, q) for p, q in numbers] + [(factor * x.mean, y.mean)]
    is_scaled = all(abs(p - q) <= 2 * tolerance * y.rms for p, q in pairs)
    return factor if is_scaled and abs(factor - 1.0) > tolerance else None
