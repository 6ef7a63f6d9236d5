"""ND001 incomplete-trace."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.coverage import UnexplainedAdd
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import count
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits


class IncompleteTrace(Rule):
    """Something in the model's data flow was not understood.

    ## What it does

    Names additions of the stream's width that are neither residual adds nor anything else that is
    known, norms that belong to no stack, and measurements that were asked for and not done. Says
    so too where no stack of residual adds was found at all.

    ## Why it matters

    What was not understood was not judged. A report without findings says that the model is
    healthy only as far as the report reaches.

    ## How it is measured

    Every operation of one forward is recorded. An addition is a residual add where one operand is
    an ancestor of the other and a weight contraction lies on the path between; embedding sums,
    biases, rotary embeddings, masks and soft-capping are known and left out. What has the width of
    a stream and is none of these is counted here.

    ## Thresholds

    ## Example

    One of six blocks forgets the skip: it returns the sum of two branches and not the stream plus
    that sum.

    ## How to fix

    Nothing in the model need be wrong. Look at the source line that is named: is the addition part
    of the residual stream? Then please report it, with that line: the structure is found from data
    flow, and a form that is missing there is missing for everybody.

    ## When it is wrong

    Fused kernels hide additions and norms from PyTorch's dispatcher, so nothing can be unexplained
    inside them; run the model with its plain implementation where there is one. Convolutional
    models without residual adds have no stream, and rightly so.

    ## References

    * The wish for a checked decomposition: github.com/ndif-team/nnterp, issue 53 (2026).
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
                "no stack of residual adds was found: nothing is said of a residual stream",
                ids=(),
                severity="info",
                confidence="high",
                advice="right for a model without residual connections; "
                "otherwise run it without fused kernels and compilation",
            )
        if coverage.unexplained_norms:
            norms = coverage.unexplained_norms
            yield self.finding(
                f"{count(len(norms), 'norm')} outside every stack: {_list_first(norms)}",
                ids=norms,
                severity="info",
                confidence="high",
                measured=(float(len(norms)), 0.0),
                advice="they are measured, but rules on placement do not judge them",
            )
        if coverage.skipped:
            yield self.finding(
                "not done: " + "; ".join(f"{each.what} ({each.why})" for each in coverage.skipped),
                ids=(),
                severity="info",
                confidence="high",
                measured=(float(len(coverage.skipped)), 0.0),
                advice="no finding rests on what was not measured",
            )

    def _unexplained_additions(self, adds: tuple[UnexplainedAdd, ...]) -> Finding:
        places = tuple(f"{add.module} ({add.line or 'source line unknown'})" for add in adds)
        reasons = dict.fromkeys(add.why for add in adds)
        return self.finding(
            f"{count(len(adds), 'addition')} of a stream's width not understood, at "
            f"{_list_first(places)}: {_list_first(tuple(reasons))}",
            ids=tuple(dict.fromkeys(add.module for add in adds)),
            severity="warning",
            confidence="high",
            measured=(float(len(adds)), 0.0),
            advice="look at these lines: if the stream runs through one of them, the numbers of "
            "that stack are incomplete",
        )


def _list_first(words: tuple[str, ...], most: int = 3) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
