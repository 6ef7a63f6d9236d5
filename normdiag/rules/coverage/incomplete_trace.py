"""ND001 incomplete-trace."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.coverage import UnexplainedAdd
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits


class IncompleteTrace(Rule):
    """Part of the model's data flow was not recognised.

    ## What it does

    Reports additions of stream width that are neither residual adds nor another known operation,
    norms that belong to no stack, requested measurements that were not made, and models without any
    stack of residual adds.

    ## Why it matters

    Rules judge only what was recognised. A report without findings covers only the recognised part
    of the model.

    ## How it is measured

    Every operation of one forward is recorded. An addition is a residual add where one operand is
    an ancestor of the other and a weight contraction lies on the path between; embedding sums,
    biases, rotary embeddings, masks and soft-capping are known and left out. Additions of stream
    width that are none of these are counted here.

    ## Thresholds

    ## Example

    One of six blocks lacks the skip connection: it returns the sum of two branches without the
    stream.

    ## How to fix

    The model may be correct. Check whether the addition on the reported source line is part of the
    residual stream. If it is, please report that line as an issue of normdiag: structure is
    detected from data flow, and the pattern is not covered yet.

    ## When it is wrong

    Fused kernels hide additions and norms from PyTorch's dispatcher, so the rule cannot see inside
    them; run the model with its plain implementation where there is one. Convolutional models
    without residual adds have no stream by design.

    ## References

    * A request for a verified decomposition: github.com/ndif-team/nnterp, issue 53 (2026).
    """

    code = "ND001"
    name = "incomplete-trace"
    since = "0.1"
    requirements = ("forward",)
    fires_on = "sample_models/unexplained_add.py:build"
    silent_on = "sample_models/unexplained_add.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per kind of gap: additions, no stack at all, norms, measurements."""
        coverage = evidence.coverage
        if coverage.unexplained_adds:
            yield self._unexplained_additions(coverage.unexplained_adds)
        if not evidence.architecture.stacks:
            yield self.finding(
                "no stack of residual adds was detected, so no residual stream was measured",
                ids=(),
                severity="info",
                confidence="high",
                advice="expected for a model without residual connections; otherwise run it "
                "without fused kernels and compilation",
            )
        if coverage.unexplained_norms:
            norms = coverage.unexplained_norms
            verb = "belongs" if len(norms) == 1 else "belong"
            yield self.finding(
                f"{format_count(len(norms), 'norm')} {verb} to no stack: {_list_first(norms)}",
                ids=norms,
                severity="info",
                confidence="high",
                measured=(float(len(norms)), 0.0),
                advice="these norms are measured, but placement rules do not apply to them",
            )
        if coverage.skipped:
            yield self.finding(
                "not measured: "
                + "; ".join(f"{each.what} ({each.why})" for each in coverage.skipped),
                ids=(),
                severity="info",
                confidence="high",
                measured=(float(len(coverage.skipped)), 0.0),
                advice="rules that need these measurements were skipped",
            )

    def _unexplained_additions(self, adds: tuple[UnexplainedAdd, ...]) -> Finding:
        places = tuple(f"{add.module} ({add.line or 'source line unknown'})" for add in adds)
        reasons = dict.fromkeys(add.why for add in adds)
        return self.finding(
            f"{format_count(len(adds), 'addition')} of stream width not recognised, at "
            f"{_list_first(places)}: {_list_first(tuple(reasons))}",
            ids=tuple(dict.fromkeys(add.module for add in adds)),
            severity="warning",
            confidence="high",
            measured=(float(len(adds)), 0.0),
            advice="check these source lines: if the stream passes through one of them, the "
            "measurements of that stack are incomplete",
        )


def _list_first(words: tuple[str, ...], most: int = 3) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
