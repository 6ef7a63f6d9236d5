"""ND302 constant-input."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.findings import Finding, Severity
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.initial_state import describe_initial_state, is_small_by_initialisation
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
"""Up to this many groups or channels are listed."""


class ConstantInput(Rule):
    """The input of a norm is constant, so its output is the bias alone.

    ## What it does

    Counts, per norm, the tokens whose input is constant over the channels (zero for RMSNorm) within
    the resolution set by epsilon; for GroupNorm it counts groups, for BatchNorm channels. Padded
    tokens are counted separately and reported as info, and so are tokens that the model makes of
    its parameters alone, such as class tokens that start at zero.

    ## Why it matters

    The output is the bias, independent of the token. The branch after the norm receives no
    information about the input and returns no gradient; dead filters and dead ReLUs look like this.
    With an epsilon of 0 the norm computes 0/0, and one such row makes the whole output NaN once
    attention mixes the tokens.

    ## How it is measured

    Tokens whose m2 is a millionth of epsilon or less, so that the normalised value is below 0.001;
    with an epsilon of 0 those with m2 = 0. m2 is the variance over channels, the mean square for
    RMSNorm. Their share of all tokens is compared with the threshold; where epsilon is 0, any such
    token is an error. An input that is small but not constant is reported by ND301.

    Tokens without input are found in the graph: the input of the norm is followed back through
    elementwise operations to where tokens are joined, and those that no input of the model has
    reached hold nothing that a norm could remove. In a model as initialised (every gain 1, every
    bias 0) the norms behind the weights of a branch are info as well, unless an input is exactly
    zero or flat (one number at all channels): see ND301.

    ## Thresholds

    ## Example

    A branch whose ReLUs are all dead, followed by a norm.

    ## How to fix

    Inspect what feeds the norm: dead units (a large negative bias, zero filters), an embedding row
    of zeros, a token id that should have been masked as padding. Where epsilon is 0, set it to 1e-5
    or 1e-6 in the config.

    ## When it is wrong

    Rows of zeros are harmless where nothing reads them: a zero embedding for padding, an image of
    one colour in the inputs. Tokens of parameters alone that are written in place into the stream
    are not told from others. Branches that are zero-initialised by design (ReZero, zero-initialised
    gates) give their output norm a constant input until training has begun.

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
            meaning="a share of constant inputs above this is a warning, below it is info",
            source="our choice (2026): a start token of zeros or an unmasked pad among the usual "
            "tens of tokens stays below it, dead filters and dead units do not",
            low=0.0,
            high=1.0,
        ),
    )
    fires_on = "sample_models/dead_relu.py:build"
    silent_on = "sample_models/dead_relu.py:build_healthy"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per severity; tokens of parameters, padding and small branches apart."""
        limit = limits["share"]
        constant = sort_worst_first(_constant_shares(evidence, _constant_of_input))
        without = {norm.id for norm in evidence.architecture.norms if norm.eps == 0}
        safe = tuple(each for each in constant if each.id not in without)
        many = tuple(each for each in safe if each.value > limit)
        small = tuple(
            each for each in many if is_small_by_initialisation(evidence, find_norm(evidence, each))
        )
        kinds: tuple[tuple[Severity, float, tuple[RatedSite, ...]], ...] = (
            ("error", 0.0, tuple(each for each in constant if each.id in without)),
            ("warning", limit, tuple(each for each in many if each not in small)),
            ("info", limit, small),
            ("info", 0.0, tuple(each for each in safe if each.value <= limit)),
        )
        for severity, passed, sites in kinds:
            if sites:
                yield self._finding(evidence, sites, severity, passed)
        own = sort_worst_first(_constant_shares(evidence, lambda of: of.constant_without_input))
        for is_unsafe in (True, False):
            sites = tuple(each for each in own if (each.id in without) == is_unsafe)
            if sites:
                yield self._class_token_finding(evidence, sites, is_unsafe)
        quiet = sort_worst_first(_constant_shares(evidence, lambda of: of.padded_constant))
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
            f"{_constant_of_input(measured)} of "
            f"{format_count(measured.tokens, statistic_unit(norm))} are constant (share "
            f"{format_number(worst.value)}, threshold {format_setting(limit)}) "
            f"{describe_sites(sites, 'norm')}"
            f"{_list_places(norm, measured.constant_indices)}{zero}"
            f"{describe_initial_state(evidence, norm)}",
            ids=site_ids(sites),
            severity=severity,
            confidence="high",
            measured=(worst.value, limit),
            advice=("set epsilon to 1e-5 or 1e-6; " if unsafe else "")
            + f"inspect what feeds {worst.id}: dead units, rows of zeros, unmasked padding; "
            f"{trace_hint(evidence, worst.id)}",
        )

    def _class_token_finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], unsafe: bool
    ) -> Finding:
        worst = sites[0]
        measured = evidence.measurements.norms[worst.id]
        zero = ", and epsilon is 0: 0/0 is NaN" if unsafe else ""
        return self.finding(
            f"{measured.constant_without_input} of "
            f"{format_count(measured.tokens, 'token')} are constant and made of parameters alone, "
            f"such as class tokens that start at zero, {describe_sites(sites, 'norm')}{zero}",
            ids=site_ids(sites),
            severity="error" if unsafe else "info",
            confidence="high",
            measured=(worst.value, 0.0),
            advice="set epsilon to 1e-5 or 1e-6"
            if unsafe
            else "harmless by itself: no input has reached these tokens yet",
        )

    def _padding_finding(
        self, evidence: Evidence, sites: tuple[RatedSite, ...], unsafe: bool
    ) -> Finding:
        worst = max(sites, key=lambda each: evidence.measurements.norms[each.id].padded_constant)
        rows = evidence.measurements.norms[worst.id].padded_constant
        zero = " with epsilon 0: 0/0 is NaN, and attention spreads it" if unsafe else ""
        return self.finding(
            f"{format_count(rows, 'padded token')} have a constant input at "
            f"{format_count(len(sites), 'norm')}, "
            f"{describe_places(sites)}{zero}",
            ids=site_ids(sites),
            severity="error" if unsafe else "info",
            confidence="high",
            measured=(float(rows), 0.0),
            advice="set epsilon to 1e-5 or 1e-6"
            if unsafe
            else "harmless: padding is excluded from all other measurements",
        )


def _constant_of_input(measured: NormMeasurement) -> int:
    """How many constant tokens an input has reached."""
    return measured.constant - measured.constant_without_input


def _constant_shares(
    evidence: Evidence, constant: Callable[[NormMeasurement], int]
) -> Iterator[RatedSite]:
    """Yield the norms with any, and their share."""
    for norm in evidence.architecture.norms:
        measured = evidence.measurements.norms.get(norm.id)
        if measured is not None and constant(measured):
            yield rate_site(norm, constant(measured) / max(1, measured.tokens))


def _list_places(norm: Norm, places: tuple[int, ...]) -> str:
    """List the groups or channels, where there are few."""
    if not 0 < len(places) <= NAMED_AT_MOST:
        return ""
    return f", {statistic_unit(norm)}{'s' if len(places) > 1 else ''} {', '.join(map(str, places))}"
