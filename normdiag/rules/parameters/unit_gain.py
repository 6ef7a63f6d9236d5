"""ND207 unit-gain."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.number_formats import NUMBER_FORMATS, NumberFormat
from normdiag.evidence.unit_gains import have_unit_gains
from normdiag.findings import Finding
from normdiag.number_text import format_number
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits


class UnitGain(Rule):
    """Every gain of a half-precision model is exactly 1: untrained, or updates were rounded away.

    ## What it does

    Reports models in half precision whose norms' gains are all exactly 1.

    ## Why it matters

    Gains begin at 1, and in bfloat16 the next smaller number is 0.9961. An optimiser step below
    half of that distance changes nothing, so gains that are trained in half precision without a
    float32 copy may never move, while the weights around them, being smaller numbers, do. A
    conversion that drops the gains leaves the same picture.

    ## How it is measured

    The smallest and the largest |gamma| of every norm that has a gain, and whether any is negative.

    ## Thresholds

    ## Example

    A model at initialisation, cast to bfloat16.

    ## How to fix

    If the model is trained, compare its gains with those of a float32 checkpoint; keep gains and
    their optimiser state in float32.

    ## When it is wrong

    The model is meant to be untrained, or its gains were merged into the next matrices.

    ## References

    * Micikevicius et al., Mixed Precision Training, ICLR 2018 (arXiv 1710.03740): updates that are
      lost without a float32 copy of the weights.
    """

    code = "ND207"
    name = "unit-gain"
    since = "0.1"
    requirements = ("gains",)
    fires_on = "sample_models/unit_gains.py:build"
    silent_on = "sample_models/unit_gains.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding for the model."""
        number_format = NUMBER_FORMATS.get(evidence.subject.dtype or "")
        if number_format is None or not number_format.is_coarse:
            return
        norms = [norm for norm in evidence.architecture.norms if norm.gain is not None]
        if have_unit_gains(norms):
            yield self._finding([norm.id for norm in norms], number_format)

    def _finding(self, ids: list[str], number_format: NumberFormat) -> Finding:
        return self.finding(
            f"every gain of all {len(ids)} norms is exactly 1 in {number_format.name}: untrained, "
            f"or its updates were below half a step ({format_number(number_format.epsilon / 4)} "
            "downwards) and changed nothing",
            ids=tuple(ids),
            severity="info",
            confidence="medium",
            measured=(float(len(ids)), None),
            advice="if the model is trained, compare its gains with a float32 checkpoint, and "
            "train gains in float32",
        )
