"""ND107 unexpected-axis."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import count
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids, trace_hint
from normdiag.rules.thresholds import Limits

STREAM_ROLES = ("branch-input", "branch-output", "stream", "skip", "final", "embedding")
FEATURE_NORM_KINDS = ("layernorm", "rmsnorm", "l2norm")


class UnexpectedAxis(Rule):
    """A norm on the stream is taken over another axis than the features.

    ## What it does

    Names LayerNorms, RMSNorms and L2 norms on a stream that reduce the tokens, the tokens and the
    features together, or another axis than their like do.

    ## Why it matters

    Such a norm mixes tokens: what one token becomes depends on the others, on the length of the
    sequence and on padding, and a causal model sees the future. It comes of a transposed input, of
    a `normalized_shape` that holds the length, or of a `dim` that counts from the wrong end, and it
    runs without an error wherever the sizes happen to fit.

    ## How it is measured

    From the axes that the graph shows to be reduced. The last axis alone is as expected; another
    single axis is too where it has as many elements as the stream has features and the other norms
    of that stream reduce the same one (models that keep channels first).

    ## Thresholds

    ## Example

    One norm of twelve is taken over the tokens: `x - x.mean(1)`, divided by `x.std(1)`.

    ## How to fix

    Reduce the feature axis: `normalized_shape` is the width alone, `dim` is -1. Where channels come
    first, permute, normalise, and permute back.

    ## When it is wrong

    Image models that normalise a whole picture at once, channels and positions together.

    ## References

    * Ba et al., Layer Normalization, 2016 (arXiv 1607.06450): the statistics of one case, over the
      units of one layer.
    """

    code = "ND107"
    name = "unexpected-axis"
    since = "0.1"
    requirements = ("architecture.stacks", "architecture.norms")
    fires_on = "sample_models/other_axes.py:build_tokens"
    silent_on = "sample_models/other_axes.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        widths = {stack.id: stack.width for stack in evidence.architecture.stacks}
        groups: dict[str, list[Norm]] = defaultdict(list)
        for norm in evidence.architecture.norms:
            if (
                norm.role in STREAM_ROLES
                and norm.kind in FEATURE_NORM_KINDS
                and norm.stack in widths
            ):
                groups[norm.stack].append(norm)
        for stack, norms in groups.items():
            usual = Counter(norm.axes for norm in norms).most_common(1)[0][0]
            odd = [norm for norm in norms if _is_unexpected(norm, widths[stack], usual)]
            if odd:
                yield self._finding(evidence, odd, widths[stack])

    def _finding(self, evidence: Evidence, odd: list[Norm], width: int) -> Finding:
        sites: tuple[RatedSite, ...] = tuple(rate_site(norm, float(norm.features)) for norm in odd)
        worst = odd[0]
        many = (
            f"{count(len(odd), 'norm')}, {describe_places(sites)}; first " if len(odd) > 1 else ""
        )
        axes = " and ".join(map(str, worst.axes))
        return self.finding(
            f"{many}{worst.id} is taken over axis {axes} of {_format_shape(worst)}, {worst.features} "
            f"elements, where the stream has {width} features",
            ids=site_ids(sites),
            severity="warning",
            confidence="medium",
            measured=(float(worst.features), float(width)),
            advice=f"reduce the feature axis alone; {trace_hint(evidence, worst.id)}",
        )


def _is_unexpected(norm: Norm, width: int, usual: tuple[int, ...]) -> bool:
    if norm.axes == (-1,):
        return False
    return len(norm.axes) > 1 or norm.features != width or norm.axes != usual


def _format_shape(norm: Norm) -> str:
    return f"({', '.join(map(str, norm.shape))})"
