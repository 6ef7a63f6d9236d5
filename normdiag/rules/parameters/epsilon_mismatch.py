"""ND205 epsilon-mismatch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_places,
    find_norm,
    rate_site,
    site_ids,
    sort_worst_first,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold

REPEATED_ROLES = ("branch-input", "branch-output", "stream", "skip", "qk")
"""Roles that every layer repeats. Embedding, final and inner norms may differ by design."""


def is_repeated(norm: Norm) -> bool:
    """Whether the layers of a stack repeat a norm; an add outside of them has norms of its own."""
    return norm.role in REPEATED_ROLES and norm.layer is not None


class EpsilonMismatch(Rule):
    """A norm's epsilon differs from that of the same norm in the other layers.

    ## What it does

    Compares the epsilons of the norms that the layers of a stack repeat, per role, and reports
    those that differ from the majority.

    ## Why it matters

    All layers are normally built from one value of the configuration. A norm with another epsilon
    was built by another class or from another default: in a merge, a patch of some layers, or a
    port that missed one of two norms. The output differs where the input is small.

    ## How it is measured

    From the epsilons in the graph, not the configuration. Among norms of one stack, role, kind
    and form of epsilon, at least two thirds must share one epsilon; those that differ from it by
    more than the threshold are reported.

    ## Thresholds

    ## Example

    One norm of twelve has epsilon 1e-12, the others 1e-5.

    ## How to fix

    Set it to the epsilon of the others: check the class of this norm and its constructor arguments.
    Compare with the reference code, not only with its `config.json`.

    ## When it is wrong

    Adapters inserted into some layers of a model have their own norms.

    ## References

    * Two epsilons in one model, of which one was never read: github.com/meta-llama/llama, issue 771
      (2023), on `norm_eps` of 1e-5 and 1e-6.
    """

    code = "ND205"
    name = "epsilon-mismatch"
    since = "0.1"
    requirements = ("architecture.stacks", "measurements.norms")
    thresholds = (
        Threshold(
            name="factor",
            unit="factor between epsilons",
            default=1.5,
            meaning="a larger factor between epsilons is reported",
            source="our choice (2026): epsilons are powers of ten, and of 513 model types of "
            "transformers all but one (for its adapters) keep one per role; 1.5 leaves room for "
            "literals that were rounded",
            low=1.0,
        ),
    )
    fires_on = "sample_models/odd_norms.py:build_epsilon"
    silent_on = "sample_models/odd_norms.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack, role, kind of norm and form of epsilon."""
        groups: dict[tuple[str | None, str, str, str], list[Norm]] = defaultdict(list)
        for norm in evidence.architecture.norms:
            if is_repeated(norm) and norm.eps is not None:
                groups[norm.stack, norm.role, norm.kind, norm.eps_form].append(norm)
        for norms in groups.values():
            ((usual, most),) = Counter(norm.eps or 0.0 for norm in norms).most_common(1)
            odd = sort_worst_first(
                rate_site(norm, _epsilon_ratio(norm.eps or 0.0, usual))
                for norm in norms
                if _epsilon_ratio(norm.eps or 0.0, usual) > limits["factor"]
            )
            if odd and 3 * most >= 2 * len(norms):
                yield self._finding(evidence, odd, usual, most, limits["factor"])

    def _finding(
        self, evidence: Evidence, odd: tuple[RatedSite, ...], usual: float, most: int, limit: float
    ) -> Finding:
        worst = odd[0]
        norm = find_norm(evidence, worst)
        many = (
            f"{format_count(len(odd), 'norm')}, {describe_places(odd)}; worst "
            if len(odd) > 1
            else ""
        )
        return self.finding(
            f"{many}{worst.id} has epsilon {format_setting(norm.eps or 0.0)}, the {most} others "
            f"of its "
            f"role ({norm.role}) have {format_setting(usual)} (factor "
            f"{format_number(worst.value)}, "
            f"threshold {format_setting(limit)})",
            ids=site_ids(odd),
            severity="warning",
            confidence="medium",
            measured=(worst.value, limit),
            advice=f"set it to the epsilon of the others; {trace_hint(evidence, worst.id)}",
        )


def _epsilon_ratio(one: float, other: float) -> float:
    small, large = sorted((one, other))
    if small == large:
        return 1.0
    return large / small if small > 0 else float("inf")
