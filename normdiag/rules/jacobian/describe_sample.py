"""The tokens that the medians of a norm's Jacobian are over."""

from __future__ import annotations

from normdiag.evidence.norm_inputs import NormJacobian
from normdiag.number_text import format_count


def describe_sample(jacobian: NormJacobian | None) -> str:
    """Return "16 sampled tokens", "tokens" where their number is not known."""
    if jacobian is None or jacobian.sample is None:
        return "tokens"
    is_whole = jacobian.sample == jacobian.tokens
    return format_count(jacobian.sample, "token" if is_whole else "sampled token")
