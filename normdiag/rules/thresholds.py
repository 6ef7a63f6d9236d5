"""Thresholds of rules: default, unit, source, valid range, and user settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from normdiag.errors import UsageError
from normdiag.evidence.record import record

Limits = Mapping[str, float]
"""The thresholds of one rule in one run: name -> value."""


@record
class Threshold:
    """A number that a rule compares with, its source, and its valid range."""

    name: str
    unit: str
    default: float
    meaning: str
    source: str
    """A paper with its year, or a derivation."""
    low: float
    """The smallest valid value."""
    high: float = math.inf
    is_lower: bool = False
    """Whether values below it are reported, not those above."""


def resolve_thresholds(
    rule: str, thresholds: Iterable[Threshold], overrides: Mapping[str, float]
) -> Limits:
    """Return the thresholds of `rule` with the user's settings applied to the defaults.

    Raises UsageError: a threshold that the rule does not have, a value that is not a finite
    number (a comparison with NaN is never true, so the gate would stand open), or out of range.
    """
    known = {threshold.name: threshold for threshold in thresholds}
    for name, value in overrides.items():
        if name not in known:
            raise _unknown_threshold_error(rule, name, known)
        _require_valid(rule, known[name], value)
    defaults = {name: float(threshold.default) for name, threshold in known.items()}
    return {**defaults, **{name: float(value) for name, value in overrides.items()}}


def _unknown_threshold_error(rule: str, name: str, known: Mapping[str, Threshold]) -> UsageError:
    if not known:
        return UsageError(f"{rule} has no threshold {name!r}", "it has none at all: remove it")
    close = get_close_matches(name, known, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return UsageError(f"{rule} has no threshold {name!r}", f"{meant}it has {', '.join(known)}")


def _require_valid(rule: str, threshold: Threshold, value: object) -> None:
    what = f"threshold {threshold.name} of {rule} = {value!r}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(what, f"it must be a finite number; the default is {threshold.default:g}")
    if not threshold.low <= value <= threshold.high:
        raise UsageError(
            what,
            f"it must lie between {threshold.low:g} and {threshold.high:g} ({threshold.unit}); "
            f"the default is {threshold.default:g}",
        )
