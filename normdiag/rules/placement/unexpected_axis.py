"""ND107 unexpected-axis."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids, trace_hint
from normdiag.rules.thresholds import Limits

STREAM_ROLES = ("branch-input", "branch-output", "stream", "skip", "final", "embedding")
FEATURE_NORM_KINDS = ("layernorm", "rmsnorm", "l2norm")


class UnexpectedAxis(Rule):
    """A norm on the stream reduces an axis other than the features.

    ## What it does

    Reports LayerNorms, RMSNorms and L2 norms on a stream that reduce the tokens, tokens and
    features together, or an axis other than that of most norms of the stream.

    ## Why it matters

    Such a norm mixes tokens: each output depends on the other tokens, on the sequence length and on
    padding, and a causal model leaks the future. Causes are a transposed input, a
    `normalized_shape` that includes the length, or a wrong `dim`; it runs without an error where
    the sizes fit.

    ## How it is measured

    From the reduced axes in the graph. The last axis alone is expected; so is another single axis
    with as many elements as the stream has features if the other norms of that stream reduce it too
    (channels-first models). An embedding norm counts where its input has the layout
    of the stream: a norm of raw patches, ahead of the projection to the stream, has another.

    ## Thresholds

    ## Example

    One norm of twelve reduces the tokens: `x - x.mean(1)`, divided by `x.std(1)`.

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
            width = widths[stack]
            odd = [
                norm
                for norm in norms
                if _is_unexpected(norm, width, usual) and _reads_stream(norm, width, usual)
            ]
            if odd:
                yield self._finding(evidence, odd, widths[stack])

    def _finding(self, evidence: Evidence, odd: list[Norm], width: int) -> Finding:
        sites: tuple[RatedSite, ...] = tuple(rate_site(norm, float(norm.features)) for norm in odd)
        worst = odd[0]
        many = (
            f"{format_count(len(odd), 'norm')}, {describe_places(sites)}; first "
            if len(odd) > 1
            else ""
        )
        axes = " and ".join(map(str, worst.axes))
        return self.finding(
            f"{many}{worst.id} reduces axis {axes} of {_format_shape(worst)}, {worst.features} "
            f"elements; the stream has {width} features",
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


def _reads_stream(norm: Norm, width: int, usual: tuple[int, ...]) -> bool:
    """Whether an embedding norm reads stream values, not raw patches ahead of a projection."""
    return norm.role != "embedding" or len(usual) > 1 or norm.shape[usual[0]] == width


def _format_shape(norm: Norm) -> str:
    return f"({', '.join(map(str, norm.shape))})"
