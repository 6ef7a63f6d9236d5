"""ND301 epsilon-dominates."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding, Severity
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.initial_state import describe_initial_state, is_small_by_initialisation
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_sites,
    find_norm,
    rate_site,
    site_ids,
    sort_worst_first,
    statistic_unit,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold


class EpsilonDominates(Rule):
    """Epsilon dominates the denominator of a norm.

    ## What it does

    Reports norms in which epsilon is a large share of m2 + eps at the typical token, or the larger
    term at many tokens (groups, for GroupNorm). Constant inputs are reported by ND302 instead.

    ## Why it matters

    The norm then hardly normalises: with m2 << eps it multiplies every input by 1/sqrt(eps). Its
    output is smaller than the branch expects, and changes of input scale reach the branch. In
    ported models the cause is an epsilon that is too large by powers of ten, or a missing embedding
    scale; a dead branch shows it at the norm that follows.

    ## How it is measured

    eps_share = eps / (m2 + eps) per token, with m2 the variance over channels (the mean square, for
    RMSNorm) of the norm's input and epsilon as found in the graph; the median over tokens that are
    not padding. It is 1 - c of the norm's Jacobian J = diag(gamma)/s (I - uu' - c zz'): at a share
    of 0.5 the radial direction passes with half its gain.

    A model is as initialised where every gain is exactly 1 and every bias 0. There a norm behind
    weights of its branch (an output norm, a q/k norm, an inner one) with an epsilon of at most 1e-5
    is info: n matrices of standard deviation d in front of it make a signal of about (d sqrt(H))^n.

    ## Thresholds

    ## Example

    Embeddings of size 1e-4, so that the first norm has a variance of 1e-8 and an epsilon of 1e-5.

    ## How to fix

    Compare epsilon with the reference (`rms_norm_eps`, `layer_norm_eps`, `layer_norm_epsilon` in
    `config.json`). If it is right, the input is too small: look for a missing embedding multiplier
    or a branch with negligible output, and scale it up.

    ## When it is wrong

    At initialisation, hence info there: an OLMo 2 of width 2048, drawn with standard deviation
    0.02, has a median eps_share of 0.70 at its first output norm over 512 tokens. The norm is then
    linear, its gradient 1/sqrt(eps) times as large, and the branch grows: in a Gemma 2 of width 32
    the share falls from 0.52 to below 0.2 in 10 steps of AdamW at 1e-3. A model that is trained
    with its gains fixed at 1 looks as initialised. A constant channel of a BatchNorm is divided by
    epsilon as well, but the median over channels does not show it.

    ## References

    * Ba et al., Layer Normalization, 2016 (arXiv 1607.06450).
    * Zhang and Sennrich, Root Mean Square Layer Normalization, NeurIPS 2019 (arXiv 1910.07467).
    * A wrong `rms_norm_eps` in use: github.com/meta-llama/llama, issue 771 (2023).
    """

    code = "ND301"
    name = "epsilon-dominates"
    since = "0.1"
    requirements = ("measurements.norms",)
    thresholds = (
        Threshold(
            name="eps_share",
            unit="share of m2 + eps",
            default=0.5,
            meaning="a median over tokens above this is a warning",
            source="above it epsilon is the larger term: c < 1/2 in J of LayerNorm and RMSNorm",
            low=0.0,
            high=1.0,
        ),
        Threshold(
            name="eps_share_notable",
            unit="share of m2 + eps",
            default=0.1,
            meaning="a median over tokens above this is info",
            source="the output is 5 % smaller than without epsilon: sqrt(1 - 0.1) = 0.95",
            low=0.0,
            high=1.0,
        ),
        Threshold(
            name="share_of_tokens",
            unit="share of tokens",
            default=0.1,
            meaning="a share of tokens above this at which epsilon is the larger term is a warning",
            source="our choice (2026), as for constant inputs (ND302): a few unusual tokens stay "
            "below",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/tiny_embedding.py:build"
    silent_on = "sample_models/tiny_embedding.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per severity and quantity; small branches of an untrained model apart."""
        sites = _median_eps_shares(evidence)
        high, low = limits["eps_share"], limits["eps_share_notable"]
        severe = sort_worst_first(each for each in sites if each.value > high)
        notable = sort_worst_first(each for each in sites if low < each.value <= high)
        reported = {*site_ids(severe)} | {
            each.id for each in _median_eps_shares(evidence, constant=True)
        }
        many = sort_worst_first(
            each
            for each in _dominated_shares(evidence)
            if each.value > limits["share_of_tokens"] and each.id not in reported
        )
        for part, severity in _split_initialised(evidence, severe):
            yield self._finding(evidence, part, severity, high)
        for part, severity in _split_initialised(evidence, many):
            yield self._some_tokens_finding(evidence, part, severity, limits["share_of_tokens"])
        notable = tuple(each for each in notable if each.id not in site_ids(many))
        if notable:
            yield self._finding(evidence, notable, "info", low)

    def _some_tokens_finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], severity: Severity, limit: float
    ) -> Finding:
        worst = sites[0]
        norm = find_norm(evidence, worst)
        measured = evidence.measurements.norms[worst.id]
        return self.finding(
            f"epsilon is the larger term at {measured.eps_dominated - measured.constant} of "
            f"{format_count(measured.tokens, statistic_unit(norm))} (share "
            f"{format_number(worst.value)}, threshold "
            f"{format_setting(limit)}) {describe_sites(sites, 'norm')}: eps "
            f"{format_setting(norm.eps or 0.0)}, smallest m2 "
            f"{format_number(measured.input_var.min)}{describe_initial_state(evidence, norm)}",
            ids=site_ids(sites),
            severity=severity,
            confidence="high",
            measured=(worst.value, limit),
            advice=f"inspect what feeds {worst.id} at these tokens: filters, units or embeddings "
            f"near zero; {trace_hint(evidence, worst.id)}",
        )

    def _finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], severity: Severity, limit: float
    ) -> Finding:
        worst = sites[0]
        norm = find_norm(evidence, worst)
        m2 = evidence.measurements.norms[worst.id].input_var.median
        return self.finding(
            f"eps / (m2 + eps) is {format_number(worst.value)} (median over tokens, threshold "
            f"{format_setting(limit)}) {describe_sites(sites, 'norm')}: "
            f"eps {format_setting(norm.eps or 0.0)}, m2 {format_number(m2)}"
            f"{describe_initial_state(evidence, norm)}",
            ids=site_ids(sites),
            severity=severity,
            confidence="high",
            measured=(worst.value, limit),
            advice=f"compare the epsilon of {worst.id} with the reference (rms_norm_eps, "
            "layer_norm_eps or layer_norm_epsilon in config.json), then find why its input is "
            f"so small; {trace_hint(evidence, worst.id)}",
        )


def _split_initialised(
    evidence: Evidence, sites: tuple[RatedSite, ...]
) -> Iterator[tuple[tuple[RatedSite, ...], Severity]]:
    """Yield the sites that are a warning, then those that training is expected to mend."""
    expected = tuple(
        each for each in sites if is_small_by_initialisation(evidence, find_norm(evidence, each))
    )
    rest = tuple(each for each in sites if each not in expected)
    if rest:
        yield rest, "warning"
    if expected:
        yield expected, "info"


def _median_eps_shares(evidence: Evidence, *, constant: bool = False) -> tuple[RatedSite, ...]:
    """The median eps_share of each norm whose typical input is not, or is, constant."""
    measured = evidence.measurements.norms
    return tuple(
        rate_site(norm, measured[norm.id].eps_share.median)
        for norm in evidence.architecture.norms
        if norm.id in measured
        and (2 * measured[norm.id].constant >= measured[norm.id].tokens) == constant
    )


def _dominated_shares(evidence: Evidence) -> Iterator[RatedSite]:
    """The share of tokens at which epsilon is the larger term, constant ones left out."""
    for norm in evidence.architecture.norms:
        measured = evidence.measurements.norms.get(norm.id)
        if measured is not None:
            yield rate_site(
                norm, (measured.eps_dominated - measured.constant) / max(1, measured.tokens)
            )
