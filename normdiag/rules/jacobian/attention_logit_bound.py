"""ND504 attention-logit-bound."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids, sort_worst_first
from normdiag.rules.thresholds import Limits, Threshold


class AttentionLogitBound(Rule):
    """Attention logits reach, or q and k norms allow, values at which softmax saturates.

    ## What it does

    Computes, for every attention with q and k norms, the largest logit that gains and scale allow,
    and reports bounds above the threshold. It is a warning where such a logit was observed, info
    otherwise.

    ## Why it matters

    q and k are normalised to keep logits small: with large ones softmax selects a single token, its
    gradient vanishes, and training diverges. The norms bound the logits only by their gains, and
    gains are learned.

    ## How it is measured

    The bound is |q . k| scale <= max|gq| max|gk| d scale, with the scale as found in the graph. A
    rotary embedding preserves norms and does not change the bound; without one it is max|gq gk| d
    scale. The logits themselves are read where the softmax receives them, over pairs that the mask
    leaves; those of a fused attention are computed again from q, k and the mask.

    ## Thresholds

    ## Example

    q and k gains of 80 in heads of 16; gains of 1.

    ## How to fix

    Apply weight decay to these gains, use one shared gain or none, or soft-cap the logits. After
    training nothing needs to be done while the largest observed logit is small.

    ## When it is wrong

    It is an upper bound, attained only where q and k align with their largest gains.

    ## References

    * Wortsman et al., Small-scale proxies for large-scale Transformer training instabilities,
      2023 (arXiv 2309.14322): runs diverge where the largest logit exceeds 10^4.
    * Dehghani et al., Scaling Vision Transformers to 22 Billion Parameters, 2023 (arXiv
      2302.05442): q and k norms against logits of more than 50000.
    """

    code = "ND504"
    name = "attention-logit-bound"
    since = "0.1"
    requirements = ("measurements.attention_logits",)
    thresholds = (
        Threshold(
            name="logit",
            unit="|q . k| scale",
            default=1e4,
            meaning="a bound above this is reported",
            source="Wortsman et al. 2023, section 3.1",
            low=0.0,
        ),
    )
    fires_on = "sample_models/large_qk_gain.py:build"
    silent_on = "sample_models/large_qk_gain.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding: for attentions with such a logit, else for those whose bound allows one."""
        precision = evidence.measurements.precision
        bounds = precision.logit_bounds if precision is not None else {}
        limit = limits["logit"]
        norms = [norm for norm in evidence.architecture.norms if norm.id in bounds]
        real = _rate_logits(evidence, limit) or [
            rate_site(n, s)
            for n in norms
            if (s := bounds[n.id].max_observed) is not None and s > limit
        ]
        allowed = [rate_site(n, bounds[n.id].bound) for n in norms if bounds[n.id].bound > limit]
        if real:
            yield self._finding(real, limit, "computed", is_observed=True)
        elif allowed:
            yield self._finding(allowed, limit, "allowed by the gains of the q and k norms")

    def _finding(
        self, sites: list[RatedSite], limit: float, how: str, *, is_observed: bool = False
    ) -> Finding:
        ranked = sort_worst_first(sites)
        return self.finding(
            f"attention logits up to {format_number(ranked[0].value)} are {how} (threshold "
            f"{format_setting(limit)}), at {format_count(len(sites), 'attention')}, "
            f"{describe_places(sites)}",
            ids=site_ids(ranked),
            severity="warning" if is_observed else "info",
            confidence="high",
            measured=(ranked[0].value, limit),
            advice=(
                "check the scale of q . k, normalise q and k, or soft-cap the logits"
                if is_observed
                else "apply weight decay to the gains of the q and k norms, or soft-cap the logits"
            ),
        )


def _rate_logits(evidence: Evidence, limit: float) -> list[RatedSite]:
    """The adds behind attentions with a logit above `limit`, each with its largest."""
    largest: dict[str, float] = {}
    for each in evidence.measurements.attention_logits.values():
        if each.add is not None and each.max_abs > limit:
            largest[each.add] = max(each.max_abs, largest.get(each.add, 0.0))
    adds = evidence.architecture.residual_adds
    return [rate_site(add, largest[add.id]) for add in adds if add.id in largest]
