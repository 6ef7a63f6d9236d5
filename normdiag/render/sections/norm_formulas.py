"""What norms divide by: the value and form of epsilon, and statistics that act as a gain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from normdiag.evidence.architecture import Norm
from normdiag.evidence.epsilon_forms import format_denominator
from normdiag.number_text import format_number, format_setting
from normdiag.render.escape import shorten_text
from normdiag.render.truncated_lines import join_truncated

_SHOWN = 3
_NOTABLE_GAIN = 1e-3
"""Relative distance from 1 from which a constant factor of a norm is stated."""


def describe_epsilons(norms: Sequence[Norm]) -> Iterator[str]:
    """Yield one line for each value and form of epsilon, then one for each gain of a statistic."""
    by_epsilon: dict[str, list[str]] = {}
    by_gain: dict[str, list[str]] = {}
    for norm in norms:
        if norm.scaling is not None or norm.kind == "dyt":
            continue
        if norm.eps is not None:
            line = (
                f"eps {format_setting(norm.eps)} in {format_denominator(norm.eps_form, norm.kind)}"
            )
            if norm.eps_form == "on-root":
                line += ", added to the root"
            by_epsilon.setdefault(line, []).append(norm.id)
        if abs(norm.statistic_gain - 1) >= _NOTABLE_GAIN:
            by_gain.setdefault(_describe_gain(norm), []).append(norm.id)
    for lines in (by_epsilon, by_gain):
        for line, ids in lines.items():
            places = join_truncated([shorten_text(id) for id in ids], _SHOWN)
            is_whole = len(ids) == len(norms)
            yield f"{line}: {f'all {len(ids):,} norms' if is_whole else places}."


def _describe_gain(norm: Norm) -> str:
    """Return why the normalised value has another rms than 1, and which."""
    gain = format_number(norm.statistic_gain)
    features = norm.features
    if norm.kind == "l2norm":
        return f"Vectors of length 1 have the rms {gain} (1/sqrt({features}))"
    if features > 1 and math.isclose(norm.variance_scale, features / (features - 1), rel_tol=1e-6):
        return f"The unbiased variance acts as a gain of {gain} (sqrt({features - 1}/{features}))"
    return f"A constant factor acts as a gain of {gain}"
