"""What rounding explains: up to which difference two models may hold and compute the same.

u is half the distance from 1 to the next number, of the coarser of the two dtypes.
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
        """The coarser of two."""
        return max(
            (cls(_UNITS.get(s.dtype or "", _COARSE), s.dtype or "?") for s in (a, b)),
            key=_unit_roundoff,
        )

    @property
    def parameter_tolerance(self) -> float:
        """Relative, of one learned value: it was rounded once or twice."""
        return 4 * self.unit

    def stream_tolerance(self, depth: int) -> float:
        """Relative, of the stream after the add at `depth`: independent errors pile up as roots do.

        Against float32, a real model of 60 adds in bfloat16 is off by 0.7 u after its first add and
        by 4.5 u after its last, in float16 by 3 u; random models of a few adds, by up to 8 u. This
        gives 8 u and 62 u.
        """
        return max(8 * self.unit, _LEAST) * math.sqrt(1 + depth)

    def norm_tolerance(self, elements: int) -> float:
        """Relative, of the norm of so many weights, rounded one by one."""
        return 4 * self.unit / math.sqrt(max(elements, 1)) + 4 * self.unit**2 + _SUMMED

    def are_same_weights(self, a: BranchWeights, b: BranchWeights) -> bool:
        """Whether norm and sum agree. Zeros may have been left out of one, so elements need not."""
        size = max(a.norm, b.norm)
        slack = self.norm_tolerance(min(a.elements, b.elements))
        return _is_close(a.norm, b.norm, slack * size) and _is_close(
            a.sum, b.sum, self.parameter_tolerance * size
        )


def _is_close(a: float, b: float, slack: float) -> bool:
    """Within `slack`; not finite numbers are like themselves alone."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= slack


def _unit_roundoff(rounding: Rounding) -> float:
    return rounding.unit
