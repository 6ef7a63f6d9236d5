"""Which findings explain which: a consequence stays in the report, folded under its cause.

A relation is declared for two rules and holds where a condition on the evidence does. The
consequence of a warning or an error becomes info; an error stays one, whatever explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from normdiag.evidence.evidence import Evidence
from normdiag.findings import SEVERITIES, Cause, Finding
from normdiag.rules.rounded_signals import is_rounded_away, rounding_step

Condition = Callable[[Evidence, Finding, Finding], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One declared relation: findings of `consequence` follow from one of `cause`."""

    cause: str
    consequence: str
    why: str
    """In the words of the rule's page: where the relation holds."""
    holds: Condition


def fold_consequences(findings: Sequence[Finding], evidence: Evidence) -> list[Finding]:
    """Return the findings, severest first, with `explained_by` where a cause is among them."""
    folded = [_fold_finding(finding, findings, evidence) for finding in findings]
    return sorted(folded, key=lambda each: -SEVERITIES.index(each.severity))


def _fold_finding(finding: Finding, findings: Sequence[Finding], evidence: Evidence) -> Finding:
    cause = _find_cause(finding, findings, evidence)
    if cause is None:
        return finding
    place = cause.ids[0] if cause.ids else ""
    return replace(
        finding,
        severity="error" if finding.severity == "error" else "info",
        severity_alone=finding.severity,
        explained_by=Cause(code=cause.code, id=place),
        advice=f"first mend the cause, {cause.code} {cause.name}{f' at {place}' if place else ''}",
    )


def _find_cause(
    finding: Finding, findings: Sequence[Finding], evidence: Evidence
) -> Finding | None:
    for relation in EXPLANATIONS:
        if relation.consequence != finding.code or finding.severity == "info":
            continue
        for cause in findings:
            is_severe = cause.code == relation.cause and cause.severity != "info"
            if is_severe and relation.holds(evidence, cause, finding):
                return cause
    return None


def _is_at_rounded_norms(evidence: Evidence, cause: Finding, finding: Finding) -> bool:
    return _are_rounded(evidence, cause, finding.ids)


def _are_rounded(evidence: Evidence, cause: Finding, norms: Sequence[str]) -> bool:
    return bool(norms) and all(
        norm in cause.ids and is_rounded_away(evidence, norm) for norm in norms
    )


def _reads_rounded_norms(evidence: Evidence, cause: Finding, finding: Finding) -> bool:
    inputs = {add.id: add.input_norms for add in evidence.architecture.residual_adds}
    return all(_are_rounded(evidence, cause, inputs.get(add, ())) for add in finding.ids)


def _writes_below_step(evidence: Evidence, cause: Finding, finding: Finding) -> bool:
    """Whether every update is smaller than the step of the format at the stream's offset."""
    stream = evidence.measurements.stream
    inputs = {add.id: add.input_norms for add in evidence.architecture.residual_adds}
    for add in finding.ids:
        steps = [rounding_step(evidence, norm) for norm in inputs.get(add, ()) if norm in cause.ids]
        largest = max((step for step in steps if step is not None), default=0.0)
        sizes = stream[add].rms if add in stream else None
        if sizes is None or not sizes.branch < largest:
            return False
    return bool(finding.ids)


def _is_stack_of_rounded_norms(evidence: Evidence, cause: Finding, finding: Finding) -> bool:
    norms = [
        norm.id
        for norm in evidence.architecture.norms
        if norm.stack in finding.ids and norm.role == "branch-input"
    ]
    return _are_rounded(evidence, cause, norms)


def _is_at_same_norms(evidence: Evidence, cause: Finding, finding: Finding) -> bool:
    return bool(finding.ids) and set(finding.ids) <= set(cause.ids)


def _reads_same_norms(evidence: Evidence, cause: Finding, finding: Finding) -> bool:
    inputs = {add.id: set(add.input_norms) for add in evidence.architecture.residual_adds}
    return bool(finding.ids) and all(
        bool(inputs.get(add, set()) & set(cause.ids)) for add in finding.ids
    )


def _reads_same_tensor(evidence: Evidence, cause: Finding, finding: Finding) -> bool:
    first = evidence.measurements.first_nonfinite
    return first is not None and any(
        operand.nonfinite and operand.name in cause.ids for operand in first.operands
    )


_ROUNDED = (
    "the input's deviation from its mean is below the step of its number format at that mean, so "
    "that the norm centres rounding errors"
)
EXPLANATIONS = (
    Explanation(
        cause="ND303",
        consequence="ND302",
        why=f"at every norm named, {_ROUNDED}",
        holds=_is_at_rounded_norms,
    ),
    Explanation(
        cause="ND303",
        consequence="ND002",
        why=f"at every norm named, {_ROUNDED}",
        holds=_is_at_rounded_norms,
    ),
    Explanation(
        cause="ND303",
        consequence="ND402",
        why=f"every branch named reads a norm where {_ROUNDED}",
        holds=_reads_rounded_norms,
    ),
    Explanation(
        cause="ND303",
        consequence="ND602",
        why=f"at every norm in front of a branch of the stack, {_ROUNDED}",
        holds=_is_stack_of_rounded_norms,
    ),
    Explanation(
        cause="ND303",
        consequence="ND703",
        why="every update named is smaller than the step of the number format at the mean of the "
        "stream",
        holds=_writes_below_step,
    ),
    Explanation(
        cause="ND702",
        consequence="ND002",
        why="at every site named, squares overflow in the norm",
        holds=_is_at_same_norms,
    ),
    Explanation(
        cause="ND202",
        consequence="ND501",
        why="it is at the norm of that gain",
        holds=_is_at_same_norms,
    ),
    Explanation(
        cause="ND202",
        consequence="ND403",
        why="the branch reads the norm of that gain",
        holds=_reads_same_norms,
    ),
    Explanation(
        cause="ND203",
        consequence="ND705",
        why="an operand of the first operation with a non-finite result is that tensor",
        holds=_reads_same_tensor,
    ),
)
