"""What a rule can ask the evidence for, and why the evidence may not have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from normdiag.evidence.evidence import Evidence

Need = Literal[
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
]

NO_FORWARD = {
    "weights-only": "no forward was run (--weights-only)",
    "structure-only": "the model was not run with weights (--structure-only)",
}
NO_CHECKPOINT = {
    "random-init": "the weights are random (--random-init), no checkpoint was read",
    "structure-only": "no checkpoint was read (--structure-only)",
}


def absent(evidence: Evidence, need: Need) -> str | None:
    """Why `evidence` lacks what `need` names; None where it is there."""
    return _ABSENT[need](evidence)


def _loading(evidence: Evidence) -> str | None:
    mode = evidence.subject.mode
    if mode == "weights-only":
        return "no model was built that could lack something (--weights-only)"
    return NO_CHECKPOINT.get(mode)


def _forward(evidence: Evidence) -> str | None:
    # With no weights the structure is still traced, unless only names and shapes were read.
    mode = evidence.subject.mode
    was_run = mode != "weights-only" and evidence.subject.probe.kind != "none"
    return None if was_run else NO_FORWARD.get(mode, "no forward was run")


def _stacks(evidence: Evidence) -> str | None:
    if evidence.architecture.stacks:
        return None
    return _forward(evidence) or "no stack of residual adds was found"


def _found_norms(evidence: Evidence) -> str | None:
    if evidence.architecture.norms:
        return None
    return _forward(evidence) or "no norm was found"


def _gains(evidence: Evidence) -> str | None:
    has_gain = any(norm.gain is not None for norm in evidence.architecture.norms)
    return _norms(evidence) or (None if has_gain else "no norm has a gain")


def _values(evidence: Evidence) -> str | None:
    measured = evidence.measurements
    if measured.first_nonfinite or measured.norms or measured.stream or measured.head_input:
        return None
    return NO_FORWARD.get(evidence.subject.mode, "no values were measured (see --measure)")


def _norms(evidence: Evidence) -> str | None:
    if evidence.measurements.norms:
        return None
    found = bool(evidence.architecture.norms)
    return _unmeasured(evidence, "norms", found, "no norm was found")


def _jacobians(evidence: Evidence) -> str | None:
    measured = evidence.measurements.norms.values()
    if any(norm.jacobian is not None for norm in measured):
        return None
    kinds = {norm.kind for norm in evidence.architecture.norms}
    found = bool(kinds & {"layernorm", "rmsnorm", "groupnorm"})
    return _unmeasured(evidence, "jacobians", found, "no norm has a Jacobian of known form")


def _stream(evidence: Evidence) -> str | None:
    if evidence.measurements.stream:
        return None
    found = bool(evidence.architecture.residual_adds)
    return _unmeasured(evidence, "stream", found, "no residual add was found")


def _growth(evidence: Evidence) -> str | None:
    if evidence.measurements.growth:
        return None
    if evidence.measurements.stream:
        return "no law can be fitted to a single add, or to values that are not finite"
    found = bool(evidence.architecture.stacks)
    return _unmeasured(evidence, "stream", found, "no stack of residual adds was found")


def _duplicates(evidence: Evidence) -> str | None:
    if evidence.measurements.duplicates:
        return None
    found = bool(evidence.architecture.stacks)
    if found and evidence.measurements.stream:
        return "no stack has two layers that are modules of their own with weights"
    return _unmeasured(evidence, "stream", found, "no stack of residual adds was found")


def _replay(evidence: Evidence) -> str | None:
    if evidence.measurements.replay or evidence.measurements.closure:
        return None
    found = bool(evidence.architecture.norms or evidence.architecture.residual_adds)
    if not found:
        return NO_FORWARD.get(evidence.subject.mode, "no norm and no residual add was found")
    return NO_FORWARD.get(evidence.subject.mode, "no site was replayed")


def _blocks(evidence: Evidence) -> str | None:
    if evidence.measurements.blocks:
        return None
    found = bool(evidence.architecture.residual_adds)
    return _unmeasured(evidence, "jacobians", found, "no residual add was found")


def _gradients(evidence: Evidence) -> str | None:
    if evidence.measurements.gradients is not None:
        return None
    return _unmeasured(evidence, "gradients", True, "")


def _precision(evidence: Evidence) -> str | None:
    if evidence.measurements.precision is not None:
        return None
    return _unmeasured(evidence, "stream", True, "")


def _weights(evidence: Evidence) -> str | None:
    if evidence.measurements.weights is not None:
        return None
    return NO_CHECKPOINT.get(evidence.subject.mode, "the static pass over the tensors was not run")


def _unmeasured(evidence: Evidence, option: str, found: bool, none_found: str) -> str:
    not_measured = f"it was not measured (add {option!r} to --measure)"
    return NO_FORWARD.get(evidence.subject.mode, not_measured if found else none_found)


_ABSENT: dict[Need, Callable[[Evidence], str | None]] = {
    "loading": _loading,
    "forward": _forward,
    "values": _values,
    "architecture.stacks": _stacks,
    "architecture.norms": _found_norms,
    "gains": _gains,
    "measurements.norms": _norms,
    "measurements.jacobians": _jacobians,
    "measurements.stream": _stream,
    "measurements.growth": _growth,
    "measurements.duplicates": _duplicates,
    "measurements.replay": _replay,
    "measurements.weights": _weights,
    "measurements.blocks": _blocks,
    "measurements.gradients": _gradients,
    "measurements.precision": _precision,
}
