"""Rounding tolerances: differences up to which two models count as equal.

u is the unit roundoff of the coarser of the two dtypes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from normdiag.evidence.branch_weights import BranchWeights
from normdiag.evidence.number_formats import NUMBER_FORMATS
from normdiag.evidence.subject import Subject

_UNITS = {f.name: f.unit_roundoff for f in NUMBER_FORMATS.values()}
_COARSE = NUMBER_FORMATS["bfloat16"].unit_roundoff
"""Of a dtype that is not known here, such as packed weights of few bits."""
_LEAST = 1e-5
"""In any dtype: rotary angles in float32 are off by this from position 100 on."""
_SUMMED = 1e-12
"""Of sums in float64, in whichever order."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """The unit roundoff u of a comparison."""

    unit: float
    dtype: str

    @classmethod
    def coarser_of(cls, a: Subject, b: Subject) -> Rounding:
        """The rounding of the coarser dtype."""
        return max(
            (cls(_UNITS.get(s.dtype or "", _COARSE), s.dtype or "?") for s in (a, b)),
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
        """Relative, of the norm of so many weights, rounded one by one."""
        return 4 * self.unit / math.sqrt(max(elements, 1)) + 4 * self.unit**2 + _SUMMED

    def are_same_weights(self, a: BranchWeights, b: BranchWeights) -> bool:
        """Whether norm and sum agree. The number of elements may differ by omitted zeros."""
        size = max(a.norm, b.norm)
        slack = self.norm_tolerance(min(a.elements, b.elements))
        return _is_close(a.norm, b.norm, slack * size) and _is_close(
            a.sum, b.sum, self.parameter_tolerance * size
        )


def _is_close(a: float, b: float, slack: float) -> bool:
    """Whether they agree within `slack`; non-finite numbers only equal themselves."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= slack


def _unit_roundoff(rounding: Rounding) -> float:
    return rounding.unit
