"""Norms inside the branches of a model that is as it was initialised."""

from __future__ import annotations

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.unit_gains import have_unit_gains

USUAL_EPSILON = 1e-5
"""The default of torch.nn.LayerNorm. A larger epsilon is the cause itself, trained or not."""
_BRANCH_ROLES = ("branch-output", "qk", "inner")


def is_initialised(evidence: Evidence) -> bool:
    """Whether every gain is exactly 1 and every bias 0: the first step of training moves them."""
    norms = evidence.architecture.norms
    has_bias = any(norm.bias_rms for norm in norms if norm.gain is not None)
    return have_unit_gains(norms) and not has_bias


def is_small_by_initialisation(evidence: Evidence, norm: Norm) -> bool:
    """Whether a norm reads what freshly drawn weights of its branch make: small, but not constant.

    n matrices of standard deviation d in front of the norm make a signal of about (d sqrt(H))^n,
    whatever the stream; with d = 0.02 that can be less than sqrt(eps). The norm passes it linearly,
    and its gradient is up to 1/sqrt(eps) times as large, so that training makes it grow.
    """
    measured = evidence.measurements.norms.get(norm.id)
    return (
        norm.role in _BRANCH_ROLES
        and norm.eps is not None
        and 0 < norm.eps <= USUAL_EPSILON
        and norm.eps_form == "in-root"
        and measured is not None
        and _has_signal(measured, norm)
        and is_initialised(evidence)
    )


def describe_initial_state(evidence: Evidence, norm: Norm) -> str:
    """The end of a sentence on such a norm; empty for others."""
    if not is_small_by_initialisation(evidence, norm):
        return ""
    return "; every gain is 1 and every bias 0: expected if the model is untrained"


def _has_signal(measured: NormMeasurement, norm: Norm) -> bool:
    """Whether no input is exactly zero, nor mostly one number at all channels."""
    is_flat = norm.kind == "layernorm" and measured.mean_energy > 1 / 2
    return measured.input_var.min > 0 and not is_flat
