"""ND205 epsilon-mismatch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.rules.number import count, number
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
"""Roles that every layer repeats. Embedding, final and inner norms may rightly differ."""


class EpsilonMismatch(Rule):
    """A norm has another epsilon than the norms of the same role in the other layers.

    ## What it does

    Compares the epsilons of the norms that the layers of a stack repeat, each role for itself, and
    names those that differ from the rest.

    ## Why it matters

    All layers are made by one line of code from one number of the configuration. A norm with
    another epsilon was built by another class, from another default, or by hand: in a merge, a
    patch of some layers, a port in which one of two norms was forgotten. Where its input is small
    the output differs, where it is large nobody notices.

    ## How it is measured

    Epsilons as found in the graph, never the configuration. Of the norms of one stack, role and
    kind the epsilon of most is taken as meant; the finding needs that at least two thirds have it,
    and names those that differ by more than the threshold.

    ## Thresholds

    ## Example

    One norm of twelve with 1e-12 where the others have 1e-5.

    ## How to fix

    Give it the epsilon of the others: the class of this norm, or the argument that it is built
    with. Compare with the original's code, and not only with its `config.json`.

    ## When it is wrong

    Adapters that were put into some layers of a finished model bring norms of their own.

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
            meaning="epsilons that are further apart are reported",
            source="our choice (2026): epsilons are powers of ten, and of 513 model types of "
            "transformers all but one (for its adapters) keep one per role; 1.5 leaves room for "
            "literals that were rounded",
            low=1.0,
        ),
    )
    fires_on = "sample_models/odd_norms.py:build_epsilon"
    silent_on = "sample_models/odd_norms.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per group of like norms."""
        groups: dict[tuple[str | None, str, str], list[Norm]] = defaultdict(list)
        for norm in evidence.architecture.norms:
            if norm.role in REPEATED_ROLES and norm.eps is not None:
                groups[norm.stack, norm.role, norm.kind].append(norm)
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
        many = f"{count(len(odd), 'norm')}, {describe_places(odd)}; worst " if len(odd) > 1 else ""
        return self.finding(
            f"{many}{worst.id}: epsilon {number(norm.eps or 0.0)}, where the {most} others of its "
            f"role ({norm.role}) have {number(usual)} (apart by a factor of {number(worst.value)}, "
            f"threshold {number(limit)})",
            ids=site_ids(odd),
            severity="warning",
            confidence="medium",
            measured=(worst.value, limit),
            advice=f"give it the epsilon of the others; {trace_hint(evidence, worst.id)}",
        )


def _epsilon_ratio(one: float, other: float) -> float:
    small, large = sorted((one, other))
    if small == large:
        return 1.0
    return large / small if small > 0 else float("inf")
