"""ND203 non-finite-parameter."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.weights import TensorSummary
from normdiag.findings import Finding
from normdiag.number_text import format_count
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits


class NonFiniteParameter(Rule):
    """A tensor of the checkpoint holds NaN or infinity.

    ## What it does

    Reports every such tensor, the number of non-finite elements, and the first of them.

    ## Why it matters

    One NaN in a gain makes one channel NaN, the next matrix product all channels, and then the
    whole output. The origin cannot be seen downstream.

    ## How it is measured

    Every floating tensor of the checkpoint is read as stored, those of modules that never run
    too. No forward is needed (`--weights-only`).

    ## Thresholds

    ## Example

    One NaN among 64 gains of one norm in block 3 of 6.

    ## How to fix

    Use an earlier checkpoint, or download the file again. A single non-finite element usually comes
    from a corrupted file or a merge that divided by zero; a tensor full of them from a training run
    that diverged before it was saved.

    ## When it is wrong

    A causal mask stored as a buffer is minus infinity above the diagonal by design. A tensor of two
    or more dimensions whose other elements are all zero is treated as a mask and reported as info.
    So is a single infinity: the inactive limit of a clamp, and what lies in a tensor that the
    model does not have.

    ## References

    * IEEE 754-2019, section 6: operations on NaN return NaN.
    """

    code = "ND203"
    name = "non-finite-parameter"
    since = "0.1"
    requirements = ("measurements.weights",)
    fires_on = "sample_models/nan_gain.py:build"
    silent_on = "sample_models/nan_gain.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding for damaged tensors, one for masks, infinite limits and unused tensors."""
        weights = evidence.measurements.weights
        unused = frozenset(evidence.subject.loading.unexpected)
        flagged = weights.flagged if weights else ()
        noted = [each for each in flagged if each.name not in unused]
        yield from self._unused_finding(
            [each for each in flagged if each.nonfinite and each.name in unused]
        )
        bad = sorted((each for each in noted if each.nonfinite), key=lambda each: -each.nonfinite)
        damaged = [each for each in bad if not _is_mask(each) and not _is_infinite_limit(each)]
        unbounded = tuple(each.name for each in bad if _is_infinite_limit(each))
        masks = tuple(each.name for each in bad if _is_mask(each))
        if damaged:
            elements = sum(each.nonfinite for each in damaged)
            yield self.finding(
                f"{format_count(elements, 'element')} of {format_count(len(damaged), 'tensor')} "
                f"are not finite: "
                f"{'; '.join(_describe_tensor(each) for each in damaged[:5])}"
                + (f"; and {len(damaged) - 5} more" if len(damaged) > 5 else ""),
                ids=tuple(each.name for each in damaged),
                severity="error",
                confidence="high",
                measured=(float(elements), 0.0),
                advice=f"restore {damaged[0].name} from an intact copy of the checkpoint; all "
                "measurements downstream of it are invalid",
            )
        if masks:
            yield self.finding(
                f"{format_count(len(masks), 'tensor')} of infinities and zeros only, like "
                f"attention masks: "
                f"{', '.join(masks[:3])}",
                ids=masks,
                severity="info",
                confidence="low",
                measured=(float(len(masks)), 0.0),
                advice="register masks with persistent=False so that they are not saved",
            )
        if unbounded:
            yield self.finding(
                f"{format_count(len(unbounded), 'tensor')} of a single infinity, like inactive "
                f"limits of a "
                f"clamp: {', '.join(unbounded[:3])}",
                ids=unbounded,
                severity="info",
                confidence="low",
                measured=(float(len(unbounded)), 0.0),
                advice="expected for an inactive limit of a clamp, an error elsewhere",
            )

    def _unused_finding(self, tensors: list[TensorSummary]) -> Iterator[Finding]:
        if not tensors:
            return
        yield self.finding(
            f"{format_count(sum(each.nonfinite for each in tensors), 'element')} of "
            f"{format_count(len(tensors), 'tensor')} that the model does not have are not finite: "
            f"{'; '.join(_describe_tensor(each) for each in tensors[:3])}",
            ids=tuple(each.name for each in tensors),
            severity="info",
            confidence="high",
            measured=(float(sum(each.nonfinite for each in tensors)), 0.0),
            advice="nothing reads them; remove them from the checkpoint",
        )


def _is_mask(tensor: TensorSummary) -> bool:
    return (
        len(tensor.shape) >= 2
        and tensor.zeros > 0
        and tensor.zeros + tensor.nonfinite == tensor.elements
    )


def _is_infinite_limit(tensor: TensorSummary) -> bool:
    return tensor.elements == tensor.nonfinite == 1 and tensor.nans == 0


def _describe_tensor(tensor: TensorSummary) -> str:
    first = tensor.first_nonfinite
    at = f", first at [{', '.join(map(str, first))}]" if first is not None else ""
    return f"{tensor.name} {tensor.nonfinite} of {tensor.elements}{at}"
