"""ND504 attention-logit-bound."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import count, number
from normdiag.rules.rule import Rule
from normdiag.rules.site import RatedSite, describe_places, rate_site, site_ids, sort_worst_first
from normdiag.rules.thresholds import Limits, Threshold


class AttentionLogitBound(Rule):
    """The gains of q and k norms let attention logits grow beyond where softmax saturates.

    ## What it does

    Computes, for every attention whose q and k leave a norm, the largest logit that the gains and
    the scale allow, and names those above the threshold. A warning where such a logit was seen,
    else for information.

    ## Why it matters

    q and k are normalised so that logits stay small: large ones make the softmax pick a single
    token, its gradient vanishes, and training diverges. The norms bound the logits by their gains
    alone, and gains are learned: a bound of 10000 is no longer one.

    ## How it is measured

    Exactly, |q . k| scale <= max|gq| max|gk| d scale, with the scale as found in the graph. A
    rotary embedding keeps lengths and changes nothing; without one, max|gq gk| d scale. Beside it
    the largest logit computed, where the attention is not one fused operation.

    ## Thresholds

    ## Example

    q and k gains of 80 in heads of 16; gains of 1.

    ## How to fix

    Put weight decay on these gains, or one shared gain or none; or cap the logits. After training:
    nothing, as long as the largest logit seen is small.

    ## When it is wrong

    It is a bound: it is reached only where q and k point along their largest gains.

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
            meaning="a larger bound is reported",
            source="Wortsman et al. 2023, section 3.1",
            low=0.0,
        ),
    )
    fires_on = "sample_models/large_qk_gain.py:build"
    silent_on = "sample_models/large_qk_gain.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding: of the attentions that saw such a logit, else of those that allow one."""
        seen = evidence.measurements.precision
        bounds = seen.logit_bounds if seen is not None else {}
        limit = limits["logit"]
        norms = [norm for norm in evidence.architecture.norms if norm.id in bounds]
        real = [
            rate_site(n, s)
            for n in norms
            if (s := bounds[n.id].max_observed) is not None and s > limit
        ]
        allowed = [rate_site(n, bounds[n.id].bound) for n in norms if bounds[n.id].bound > limit]
        if real:
            yield self._finding(real, limit, "computed", is_seen=True)
        elif allowed:
            yield self._finding(allowed, limit, "allowed by the gains of the q and k norms")

    def _finding(
        self, sites: list[RatedSite], limit: float, how: str, *, is_seen: bool = False
    ) -> Finding:
        ranked = sort_worst_first(sites)
        return self.finding(
            f"attention logits of up to {number(ranked[0].value)} are {how} (threshold "
            f"{number(limit)}), at {count(len(sites), 'attention')}, {describe_places(sites)}",
            ids=site_ids(ranked),
            severity="warning" if is_seen else "info",
            confidence="high",
            measured=(ranked[0].value, limit),
            advice="put weight decay on the gains of the q and k norms, or cap the logits",
        )
