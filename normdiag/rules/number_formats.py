"""The number formats of a model and of its checkpoint."""

from __future__ import annotations

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.precision import Precision


def precision_measurement(evidence: Evidence) -> Precision:
    """Return `measurements.precision`; empty where it was not measured."""
    precision = evidence.measurements.precision
    return Precision(formats={}) if precision is None else precision


def checkpoint_formats(evidence: Evidence) -> set[str]:
    """Return the format of the run and the most frequent format of the checkpoint ("float16")."""
    run = (evidence.subject.dtype or "").removeprefix("torch.")
    weights = evidence.measurements.weights
    stored = weights.dtypes if weights is not None else {}
    return {run, max(stored, key=lambda name: stored[name], default=run)}
