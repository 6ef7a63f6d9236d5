"""Rounding tolerances: differences up to which two models count as equal.

u is the unit roundoff of the coarsest dtype: of those that both run in and, where they are stored
in different ones, of these too: values that were float16 on disk are rounded in float32 as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from normdiag.evidence.branch_weights import BranchWeights
from normdiag.evidence.number_formats import NUMBER_FORMATS
from normdiag.report.report import Report

_UNITS = {f.name: f.unit_roundoff for f in NUMBER_FORMATS.values()}
_WIDE = {f.name for f in NUMBER_FORMATS.values() if f.size_bytes >= 2}
_COARSE = NUMBER_FORMATS["bfloat16"].unit_roundoff
"""Of a dtype that is not known here, such as packed weights of few bits."""
_LEAST = 1e-5
"""In any dtype: rotary angles in float32 are off by this from position 100 on."""
_BIAS = 1 / 32
_SUMMED = 1e-12
"""Of sums in float64, in whichever order."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """The unit roundoff u of a comparison."""

    unit: float
    dtype: str

    @classmethod
    def coarser_of(cls, a: Report, b: Report) -> Rounding:
        """The rounding of the coarser dtype."""
        of_runs = [report.subject.dtype or "?" for report in (a, b)]
        of_storage = [] if list_stored(a) == list_stored(b) else [*list_stored(a), *list_stored(b)]
        return max(
            (cls(_UNITS.get(name, _COARSE), name) for name in (*of_runs, *of_storage)),
            key=_unit_roundoff,
        )

    @property
    def parameter_tolerance(self) -> float:
        """Relative, of one learned value: it was rounded once or twice."""
        return 4 * self.unit

    def stream_tolerance(self, depth: int) -> float:
        """Relative, of the stream after the add at `depth`: independent errors grow as a square
        root.

        Compared with float32, a real model of 60 adds differs by 0.7 u after its first add and 4.5
        u after its last in bfloat16, 3 u in float16; random models of a few adds differ by up to 8
        u. The tolerance is 8 u and 62 u.
        """
        return max(8 * self.unit, _LEAST) * math.sqrt(1 + depth)

    def norm_tolerance(self, elements: int) -> float:
        """Relative, of the norm of so many weights, rounded one by one.

        Weights of few levels are rounded with a bias: the norm of a real embedding in Q4_1 changes
        by u / 190 in float16, where independent errors would leave u / 9000.
        """
        independent = 4 * self.unit / math.sqrt(max(elements, 1)) + 4 * self.unit**2
        return independent + _BIAS * self.unit + _SUMMED

    def are_same_weights(self, a: BranchWeights, b: BranchWeights) -> bool:
        """Whether norm and sum agree. The number of elements may differ by omitted zeros."""
        size = max(a.norm, b.norm)
        slack = self.norm_tolerance(min(a.elements, b.elements))
        return _is_close(a.norm, b.norm, slack * size) and _is_close(
            a.sum, b.sum, self.parameter_tolerance * size
        )


def list_stored(report: Report) -> tuple[str, ...]:
    """Dtypes of at least 16 bits that floating tensors are stored in; narrower ones come with
    factors of their own, and what they explain is no rounding."""
    weights = report.measurements.weights
    return tuple(sorted(_WIDE & weights.dtypes.keys())) if weights is not None else ()


def are_cast(a: Report, b: Report) -> bool:
    """Whether they run in other dtypes, or are stored in others."""
    return (a.subject.dtype, list_stored(a)) != (b.subject.dtype, list_stored(b))


def _is_close(a: float, b: float, slack: float) -> bool:
    """Whether they agree within `slack`; non-finite numbers only equal themselves."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= slack


def _unit_roundoff(rounding: Rounding) -> float:
    return rounding.unit
