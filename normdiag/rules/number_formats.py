"""The number formats of a model, and what was measured of them."""

from __future__ import annotations

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.precision import Precision


def precision_measurement(evidence: Evidence) -> Precision:
    """What the need `measurements.precision` promises."""
    found = evidence.measurements.precision
    return Precision(formats={}) if found is None else found


def checkpoint_formats(evidence: Evidence) -> set[str]:
    """The format of the run and, of the checkpoint, the one that most tensors are stored in, as
    torch calls them ("float16")."""
    run = (evidence.subject.dtype or "").removeprefix("torch.")
    weights = evidence.measurements.weights
    stored = weights.dtypes if weights is not None else {}
    return {run, max(stored, key=lambda name: stored[name], default=run)}
