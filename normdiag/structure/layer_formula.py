"""One-line formula of a layer: `x + F(rms(x))`, `ln(3.56 x + F(x))`, `x + LS(F(ln(x)))`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from normdiag.evidence.architecture import Scale
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.stack_structure import AddStructure

_SHORT = {
    "layernorm": "ln",
    "rmsnorm": "rms",
    "groupnorm": "gn",
    "batchnorm": "bn",
    "l2norm": "l2",
    "dyt": "dyt",
}


def format_add(facts: AddStructure, skip_scale: Scale, branch_scale: Scale) -> str:
    """Format one residual add as a formula of the stream x."""
    x = "x"
    prefix = ""
    if facts.skip_norms:
        prefix = f"y = {_format_norms(facts.skip_norms, 'x')}; "
        x = "y"
    branch = _format_branch(facts, x)
    if facts.add.is_projected:
        x = f"P({x})"
    if facts.add.is_gated:
        return prefix + _format_norms(facts.stream_norms, f"g {x} + g' {branch}")
    drawn = f"{_format_scaled_skip(skip_scale, x)} + {_format_scaled_branch(branch_scale, branch)}"
    return prefix + _format_norms(facts.stream_norms, drawn)


def _format_branch(facts: AddStructure, x: str) -> str:
    if facts.is_parallel and len(facts.output_norms) == 0:
        norms = list(facts.input_norms)
        first = _format_norms(norms[:1], x)
        second = _format_norms(norms[1:2] or norms[:1], x).replace(
            "(", "'(" if norms[1:2] else "(", 1
        )
        return f"A({first}) + M({second})"
    inner = _format_norms(facts.input_norms[:1], x)
    return _format_norms(facts.output_norms[::-1], f"F({inner})")


def _format_norms(norms: Sequence[DetectedNorm], inside: str) -> str:
    for norm in norms:
        inside = f"{_SHORT.get(norm.kind, 'norm')}({inside})"
    return inside


def _format_scaled_skip(scale: Scale, x: str) -> str:
    if scale.kind == "none" or scale.value == 1.0:
        return x
    if scale.value is not None:
        return f"{scale.value:.3g} {x}"
    return f"a {x}"


def _format_scaled_branch(scale: Scale, branch: str) -> str:
    if scale.kind == "none" or scale.value == 1.0:
        return branch
    if scale.kind == "learned" and scale.value is None:
        return f"LS({branch})"
    if scale.kind == "learned":
        return f"b {branch}"
    return f"{scale.value:.3g} {branch}" if scale.value is not None else f"b {branch}"


def format_stack(drawings: Sequence[str]) -> str:
    """Join the formulas of a stack's adds into one line, most frequent first."""
    ranked = [text for text, _ in Counter(drawings).most_common(3)]
    return " | ".join(ranked)
