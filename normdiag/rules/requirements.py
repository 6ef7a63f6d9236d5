"""The evidence that a rule can require, and why it is missing from a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from normdiag.evidence.blocks import RESOLVED_ULPS
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.number_formats import NUMBER_FORMATS
from normdiag.number_text import format_number

Requirement = Literal[
    "loading",
    "forward",
    "values",
    "architecture.stacks",
    "architecture.norms",
    "gains",
    "measurements.norms",
    "measurements.jacobians",
    "measurements.stream",
    "measurements.growth",
    "measurements.duplicates",
    "measurements.replay",
    "measurements.weights",
    "measurements.blocks",
    "measurements.gradients",
    "measurements.precision",
    "measurements.attention_logits",
    "measurements.defaults",
]

NO_FORWARD = {
    "weights-only": "no forward was run (--weights-only)",
    "structure-only": "the model was not run with weights (--structure-only)",
}
NO_CHECKPOINT = {
    "random-init": "the weights are random (--random-init), no checkpoint was read",
    "structure-only": "no checkpoint was read (--structure-only)",
}

_NEAR_NORMS_ALONE = "only near-norms were found (ND108)"


def missing_reason(evidence: Evidence, requirement: Requirement) -> str | None:
    """Return why `evidence` does not meet `requirement`; None where it does."""
    return _MISSING_REASONS[requirement](evidence)


def _missing_loading(evidence: Evidence) -> str | None:
    mode = evidence.subject.mode
    if mode == "weights-only" and evidence.subject.loading.stored_twice:
        return None  # that needs no model to be known
    if mode == "weights-only":
        return "no model was built, so its parameters are not known (--weights-only)"
    return NO_CHECKPOINT.get(mode)


def _missing_forward(evidence: Evidence) -> str | None:
    # With no weights the structure is still traced, unless only names and shapes were read.
    mode = evidence.subject.mode
    was_run = mode != "weights-only" and evidence.subject.probe.kind != "none"
    return None if was_run else NO_FORWARD.get(mode, "no forward was run")


def _missing_stacks(evidence: Evidence) -> str | None:
    if evidence.architecture.stacks:
        return None
    return _missing_forward(evidence) or "no stack of residual adds was found"


def _missing_norms(evidence: Evidence) -> str | None:
    if evidence.architecture.norms:
        return None
    return _missing_forward(evidence) or "no norm was found"


def _missing_gains(evidence: Evidence) -> str | None:
    has_gain = any(norm.gain is not None for norm in evidence.architecture.norms)
    return _missing_norm_measurements(evidence) or (None if has_gain else "no norm has a gain")


def _missing_values(evidence: Evidence) -> str | None:
    """Every forward with values is searched for those that are not finite."""
    return NO_FORWARD.get(evidence.subject.mode)


def _missing_norm_measurements(evidence: Evidence) -> str | None:
    if evidence.measurements.norms:
        return None
    kinds = {norm.kind for norm in evidence.architecture.norms}
    absent = _NEAR_NORMS_ALONE if kinds == {"other"} else "no norm was found"
    return _measurement_reason(evidence, "norm-inputs", bool(kinds - {"other"}), absent)


def _missing_jacobians(evidence: Evidence) -> str | None:
    measured = evidence.measurements.norms.values()
    if any(norm.jacobian is not None for norm in measured):
        return None
    kinds = {norm.kind for norm in evidence.architecture.norms}
    exists = bool(kinds & {"layernorm", "rmsnorm", "groupnorm"})
    absent = "no norm has a Jacobian of known form"
    absent = _NEAR_NORMS_ALONE if kinds == {"other"} else absent
    return _measurement_reason(evidence, "norm-jacobians", exists, absent)


def _missing_stream(evidence: Evidence) -> str | None:
    if evidence.measurements.stream:
        return None
    exists = bool(evidence.architecture.residual_adds)
    return _measurement_reason(evidence, "stream-adds", exists, "no residual add was found")


def _missing_growth(evidence: Evidence) -> str | None:
    if evidence.measurements.growth:
        return None
    if evidence.measurements.stream:
        return "no growth law can be fitted to a single add or to non-finite values"
    exists = bool(evidence.architecture.stacks)
    return _measurement_reason(
        evidence, "stream-adds", exists, "no stack of residual adds was found"
    )


def _missing_duplicates(evidence: Evidence) -> str | None:
    if evidence.measurements.duplicates:
        return None
    exists = bool(evidence.architecture.stacks)
    if exists and _was_requested(evidence, "depth"):
        return "no stack has two layers that are separate modules with parameters"
    return _measurement_reason(evidence, "depth", exists, "no stack of residual adds was found")


def _missing_replay(evidence: Evidence) -> str | None:
    if evidence.measurements.replay or evidence.measurements.closure:
        return None
    exists = bool(evidence.architecture.norms or evidence.architecture.residual_adds)
    if not exists:
        return NO_FORWARD.get(evidence.subject.mode, "no norm and no residual add was found")
    return NO_FORWARD.get(evidence.subject.mode, "no site was replayed")


def _missing_blocks(evidence: Evidence) -> str | None:
    if evidence.measurements.blocks:
        return _coarse_format_reason(evidence)
    exists = bool(evidence.architecture.residual_adds)
    return _measurement_reason(evidence, "block-jacobians", exists, "no residual add was found")


def _coarse_format_reason(evidence: Evidence) -> str | None:
    """Why Jacobians that were taken in the model's format cannot show a lost direction."""
    number_format = NUMBER_FORMATS.get(evidence.subject.dtype or "")
    if number_format is None or not number_format.is_coarse:
        return None
    resolved = format_number(1 / (RESOLVED_ULPS * number_format.epsilon))
    return (
        f"block Jacobians in {number_format.name} resolve condition numbers up to about "
        f"{resolved} only (load it with --dtype float32)"
    )


def _missing_gradients(evidence: Evidence) -> str | None:
    if evidence.measurements.gradients is not None:
        return None
    return _measurement_reason(evidence, "gradients", True, "")


def _missing_precision(evidence: Evidence) -> str | None:
    precision = evidence.measurements.precision
    if precision is not None and precision.formats:
        return None
    exists = bool(evidence.architecture.residual_adds)
    return _measurement_reason(evidence, "precision", exists, "no residual add was found")


def _missing_attention_logits(evidence: Evidence) -> str | None:
    measured = evidence.measurements
    has_logits = bool(measured.attention_logits) or measured.precision is not None
    if has_logits and _was_requested(evidence, "attention-logits"):
        return None
    is_known = _was_requested(evidence, "attention-logits") and bool(evidence.coverage.measures)
    return _measurement_reason(evidence, "attention-logits", not is_known, "no attention was found")


def _missing_defaults(evidence: Evidence) -> str | None:
    if evidence.subject.loading.defaulted is not None:
        return None
    return _measurement_reason(evidence, "defaults", True, "")


def _missing_weights(evidence: Evidence) -> str | None:
    if evidence.measurements.weights is not None:
        return None
    return NO_CHECKPOINT.get(evidence.subject.mode, "the static pass over the tensors was not run")


def _was_requested(evidence: Evidence, measure: str) -> bool:
    """Whether `measure` was taken; reports that do not state their measures have all of them."""
    measures = evidence.coverage.measures
    return measure in measures or not measures


def _measurement_reason(evidence: Evidence, measure: str, exists: bool, none_found: str) -> str:
    """Why the numbers of `measure` are missing; `exists`: whether there is anything to measure."""
    if not exists:
        reason = none_found
    elif measure in evidence.coverage.measures:
        reason = f"{measure!r} was requested and could not be measured (see coverage.skipped)"
    else:
        reason = f"it was not measured (add {measure!r} to --measure)"
    return NO_FORWARD.get(evidence.subject.mode, reason)


_MISSING_REASONS: dict[Requirement, Callable[[Evidence], str | None]] = {
    "loading": _missing_loading,
    "forward": _missing_forward,
    "values": _missing_values,
    "architecture.stacks": _missing_stacks,
    "architecture.norms": _missing_norms,
    "gains": _missing_gains,
    "measurements.norms": _missing_norm_measurements,
    "measurements.jacobians": _missing_jacobians,
    "measurements.stream": _missing_stream,
    "measurements.growth": _missing_growth,
    "measurements.duplicates": _missing_duplicates,
    "measurements.replay": _missing_replay,
    "measurements.weights": _missing_weights,
    "measurements.blocks": _missing_blocks,
    "measurements.gradients": _missing_gradients,
    "measurements.precision": _missing_precision,
    "measurements.attention_logits": _missing_attention_logits,
    "measurements.defaults": _missing_defaults,
}
