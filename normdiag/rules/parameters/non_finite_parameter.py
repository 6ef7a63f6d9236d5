"""ND203 non-finite-parameter."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.weights import TensorSummary
from normdiag.findings import Finding
from normdiag.rules.number import count
from normdiag.rules.rule import Rule
from normdiag.rules.thresholds import Limits


class NonFiniteParameter(Rule):
    """A tensor of the checkpoint holds NaN or infinity.

    ## What it does

    Names every such tensor, how many of its elements are bad, and the first of them.

    ## Why it matters

    One NaN in one gain makes one channel NaN, the next matrix product all channels, and the output
    nothing else. Nothing downstream can tell where it began.

    ## How it is measured

    Every floating tensor of the checkpoint is read as stored, those of modules that never run
    too. No forward is needed (`--weights-only`).

    ## Thresholds

    ## Example

    One NaN among 64 gains of one norm in block 3 of 6.

    ## How to fix

    Go back to an earlier checkpoint, or fetch the file again if others have it sound. A tensor
    with a single bad element is most often a broken file or a merge that divided by zero, one that
    is bad throughout a training run that had diverged before it was saved.

    ## When it is wrong

    A causal mask kept as a buffer is minus infinity above the diagonal on purpose. A tensor of two
    or more dimensions whose other elements are all zero is taken for one, and only mentioned. So is
    a single infinity: the limit of a clamp that does not bind.

    ## References

    * IEEE 754-2019, section 6: what is computed from a NaN is a NaN.
    """

    code = "ND203"
    name = "non-finite-parameter"
    since = "0.1"
    requirements = ("measurements.weights",)
    fires_on = "sample_models/nan_gain.py:build"
    silent_on = "sample_models/nan_gain.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding of all damaged tensors, one of all masks."""
        weights = evidence.measurements.weights
        noted = weights.flagged if weights else ()
        bad = sorted((each for each in noted if each.nonfinite), key=lambda each: -each.nonfinite)
        damaged = [each for each in bad if not _is_mask(each) and not _is_infinite_limit(each)]
        unbounded = tuple(each.name for each in bad if _is_infinite_limit(each))
        masks = tuple(each.name for each in bad if _is_mask(each))
        if damaged:
            elements = sum(each.nonfinite for each in damaged)
            yield self.finding(
                f"{count(elements, 'element')} of {count(len(damaged), 'tensor')} not finite: "
                f"{'; '.join(_describe_tensor(each) for each in damaged[:5])}"
                + (f"; and {len(damaged) - 5} more" if len(damaged) > 5 else ""),
                ids=tuple(each.name for each in damaged),
                severity="error",
                confidence="high",
                measured=(float(elements), 0.0),
                advice=f"replace {damaged[0].name} from a sound copy of the checkpoint; no other "
                "number behind it means anything",
            )
        if masks:
            yield self.finding(
                f"{count(len(masks), 'tensor')} of infinities and zeros, as attention masks are: "
                f"{', '.join(masks[:3])}",
                ids=masks,
                severity="info",
                confidence="low",
                measured=(float(len(masks)), 0.0),
                advice="register a mask with persistent=False: it is no part of a checkpoint",
            )
        if unbounded:
            yield self.finding(
                f"{count(len(unbounded), 'tensor')} of a single infinity, as limits that do not "
                f"bind are: {', '.join(unbounded[:3])}",
                ids=unbounded,
                severity="info",
                confidence="low",
                measured=(float(len(unbounded)), 0.0),
                advice="right for the limit of a clamp; nothing else is meant to be infinite",
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
