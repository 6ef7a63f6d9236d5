"""ND302 constant-input."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.findings import Finding, Severity
from normdiag.rules.number import count, number
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_places,
    describe_sites,
    find_norm,
    rate_site,
    site_ids,
    sort_worst_first,
    statistic_unit,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold

NAMED_AT_MOST = 8
"""Groups or channels up to this many are named."""


class ConstantInput(Rule):
    """A norm is given an input that does not vary: nothing is left to normalise.

    ## What it does

    Counts, per norm, the tokens whose input is constant over the channels (zero, for RMSNorm) as
    far as the norm can tell; the groups, for GroupNorm, the channels, for BatchNorm. Padded
    tokens are counted apart and only mentioned.

    ## Why it matters

    What comes out is the bias alone, whatever the token says. In the branch behind it nothing of
    the input is left and no gradient comes back; dead filters and dead ReLUs look like this. With
    an epsilon of 0 the norm divides 0 by 0, and one such row makes the whole output NaN as soon
    as attention mixes the tokens.

    ## How it is measured

    Tokens whose m2 is a millionth of epsilon or less, so that the normalised value is below 0.001;
    with an epsilon of 0 those with m2 = 0. m2 is the variance over channels, the mean square for
    RMSNorm. Their share of all tokens is compared with the threshold; where epsilon is 0, any is an
    error. An input that is small but does vary is the finding of ND301.

    ## Thresholds

    ## Example

    A branch whose ReLUs are all dead, and a norm behind them.

    ## How to fix

    Look at what feeds the norm: dead units (a large negative bias, filters of zeros), an
    embedding row of zeros, a token id that should have been masked as padding. Where epsilon is 0,
    set it to 1e-5 or 1e-6 in the config.

    ## When it is wrong

    Rows of zeros are harmless where nothing reads them: an embedding of zeros for padding, an
    image of one colour in the probe. Branches that are initialised with zeros on purpose (ReZero,
    zero-initialised gates) give their output norm a constant until training has begun.

    ## References

    * NaN from constant rows in half precision: github.com/pytorch/pytorch, issue 41527 (2020).
    * Lu et al., Dying ReLU and Initialization, 2019 (arXiv 1903.06733).
    """

    code = "ND302"
    name = "constant-input"
    since = "0.1"
    requirements = ("measurements.norms",)
    thresholds = (
        Threshold(
            name="share",
            unit="share of tokens",
            default=0.1,
            meaning="a larger share of constant inputs is a warning, a smaller one is mentioned",
            source="our choice (2026): a start token of zeros or an unmasked pad among the usual "
            "tens of tokens stays below it, dead filters and dead units do not",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/dead_relu.py:build"
    silent_on = "sample_models/dead_relu.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per severity of tokens that count, one of padding."""
        limit = limits["share"]
        real = _constant_shares(evidence, lambda of: of.constant)
        padded = _constant_shares(evidence, lambda of: of.padded_constant)
        without = {norm.id for norm in evidence.architecture.norms if norm.eps == 0}
        constant = sort_worst_first(each for each in real if each.value > 0)
        kinds: tuple[tuple[Severity, float, tuple[RatedSite, ...]], ...] = (
            ("error", 0.0, tuple(each for each in constant if each.id in without)),
            ("warning", limit, _sites_between(constant, limit, 1.0, without)),
            ("info", 0.0, _sites_between(constant, 0.0, limit, without)),
        )
        for severity, passed, sites in kinds:
            if sites:
                yield self._finding(evidence, sites, severity, passed)
        quiet = sort_worst_first(each for each in padded if each.value > 0)
        if quiet:
            yield self._padding_finding(evidence, quiet, bool(without & set(site_ids(quiet))))

    def _finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], severity: Severity, limit: float
    ) -> Finding:
        worst = sites[0]
        norm = find_norm(evidence, worst)
        measured = evidence.measurements.norms[worst.id]
        unsafe = severity == "error"
        zero = ", and epsilon is 0: 0/0 is NaN" if unsafe else ""
        return self.finding(
            f"{measured.constant} of {count(measured.tokens, statistic_unit(norm))} constant (share "
            f"{number(worst.value)}, threshold {number(limit)}) {describe_sites(sites, 'norm')}"
            f"{_list_places(norm, measured.constant_indices)}{zero}",
            ids=site_ids(sites),
            severity=severity,
            confidence="high",
            measured=(worst.value, limit),
            advice=("set epsilon to 1e-5 or 1e-6; " if unsafe else "")
            + f"look at what feeds {worst.id}: dead units, rows of zeros, padding that is not "
            f"masked; {trace_hint(evidence, worst.id)}",
        )

    def _padding_finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], unsafe: bool
    ) -> Finding:
        worst = max(sites, key=lambda each: evidence.measurements.norms[each.id].padded_constant)
        rows = evidence.measurements.norms[worst.id].padded_constant
        zero = " with an epsilon of 0: 0/0 is NaN, and attention spreads it" if unsafe else ""
        return self.finding(
            f"{count(rows, 'padded token')} constant at {count(len(sites), 'norm')}, "
            f"{describe_places(sites)}{zero}",
            ids=site_ids(sites),
            severity="error" if unsafe else "info",
            confidence="high",
            measured=(float(rows), 0.0),
            advice="set epsilon to 1e-5 or 1e-6"
            if unsafe
            else "harmless: padding enters no other number, and epsilon keeps it finite",
        )


def _sites_between(
    sites: tuple[RatedSite, ...], low: float, high: float, without: set[str]
) -> tuple[RatedSite, ...]:
    """Those above `low` and up to `high` whose norm has an epsilon."""
    return tuple(each for each in sites if low < each.value <= high and each.id not in without)


def _constant_shares(
    evidence: Evidence, constant: Callable[[NormMeasurement], int]
) -> tuple[RatedSite, ...]:
    measured = evidence.measurements.norms
    return tuple(
        rate_site(norm, constant(measured[norm.id]) / max(1, measured[norm.id].tokens))
        for norm in evidence.architecture.norms
        if norm.id in measured
    )


def _list_places(norm: Norm, places: tuple[int, ...]) -> str:
    """Which groups or channels, where they are few."""
    if not 0 < len(places) <= NAMED_AT_MOST:
        return ""
    return f", {statistic_unit(norm)}{'s' if len(places) > 1 else ''} {', '.join(map(str, places))}"
