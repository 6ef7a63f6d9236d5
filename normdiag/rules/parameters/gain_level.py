"""ND206 gain-level."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from normdiag.evidence.architecture import Norm
from normdiag.evidence.evidence import Evidence
from normdiag.findings import Finding
from normdiag.number_text import format_number, format_setting
from normdiag.rules.parameters.epsilon_mismatch import is_repeated
from normdiag.rules.rule import Rule
from normdiag.rules.site import (
    RatedSite,
    describe_sites,
    rate_site,
    site_ids,
    sort_worst_first,
    trace_hint,
)
from normdiag.rules.thresholds import Limits, Threshold

MIN_PEERS = 4
"""Fewer norms at the same position show no usual level."""

Level = tuple[float, Norm]
"""The median |gamma| of a norm, and the norm."""


class GainLevel(Rule):
    """The gain of a norm is far below or above that of the same norm in the other layers.

    ## What it does

    Compares the typical gain of each norm with those of the norms at the same position in the other
    layers, and reports the few that lie apart from all others.

    ## Why it matters

    The gain sets the size of a norm's output, whatever the input. A branch behind a gain of 0.003
    among ones receives a three-hundredth of what its weights were trained for: it is nearly off. A
    norm that was left at its initial value, scaled twice or overwritten looks like this.

    ## How it is measured

    The level of a norm is the median |gamma| over its channels. Norms are compared where stack,
    role and place in the order of their layer are the same, at least five of them. Their levels are
    sorted; the value is the ratio of two neighbours in that order, taken where at most a quarter of
    the norms lies beyond. Gains that change steadily with depth have no such gap.

    ## Thresholds

    ## Example

    The gain of one of 12 norms is multiplied by 0.003.

    ## How to fix

    Compare the vector with the reference checkpoint. Where it is as trained, the branch behind the
    norm may do little: its writes are listed by layer.

    ## When it is wrong

    A following matrix may hold the inverse factor: gain and matrix scale against each other.

    ## References

    * Xiong et al., On Layer Normalization in the Transformer Architecture, ICML 2020
      (arXiv 2002.04745): the gain sets the scale of what a branch reads.
    """

    code = "ND206"
    name = "gain-level"
    since = "0.1"
    requirements = ("gains",)
    thresholds = (
        Threshold(
            name="factor",
            unit="ratio of median |gamma|",
            default=30,
            meaning="a ratio above this is reported",
            source="our choice (2026): four times the widest gap of SmolLM2-135M (7.2, its first "
            "layer); all-MiniLM-L6-v2 has none above 1.1",
            low=1.0,
        ),
    )
    fires_on = "sample_models/gains.py:build_low"
    silent_on = "sample_models/gains.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per group of peers and side."""
        for levels in _group_levels(evidence.architecture.norms):
            for is_low in (True, False):
                apart, ratio, border = _split_apart(levels, is_low)
                if ratio > limits["factor"]:
                    yield self._finding(evidence, apart, ratio, border, limits["factor"])

    def _finding(
        self,
        evidence: Evidence,
        apart: Sequence[Level],
        ratio: float,
        border: float,
        limit: float,
    ) -> Finding:
        sites: tuple[RatedSite, ...] = sort_worst_first(
            rate_site(norm, max(level / border, border / level)) for level, norm in apart
        )
        level = next(level for level, norm in apart if norm.id == sites[0].id)
        side, edge = ("below", "least") if level < border else ("above", "largest")
        return self.finding(
            f"the gain lies {format_number(ratio)} times or more {side} that of the same norm in "
            f"the other layers (threshold {format_setting(limit)}) "
            f"{describe_sites(sites, 'norm')}: median |gamma| {format_number(level)}, the {edge} "
            f"of the others {format_number(border)}",
            ids=site_ids(sites),
            severity="warning",
            confidence="medium",
            measured=(ratio, limit),
            advice=f"compare the gain of {sites[0].id} with the reference checkpoint; "
            f"{trace_hint(evidence, sites[0].id)}",
        )


def _group_levels(norms: Sequence[Norm]) -> Iterator[tuple[Level, ...]]:
    """Yield the levels of norms at one position, smallest first."""
    ordinals: Counter[tuple[str | None, int | None, str]] = Counter()
    groups: dict[tuple[str | None, str, int], list[Level]] = defaultdict(list)
    for norm in norms:
        if not is_repeated(norm) or norm.gain is None:
            continue
        place = (norm.stack, norm.layer, norm.role)
        if norm.gain.median_abs and not norm.gain.nonfinite:
            key = (norm.stack, norm.role, ordinals[place])
            groups[key].append((norm.gain.median_abs, norm))
        ordinals[place] += 1
    for levels in groups.values():
        if len(levels) > MIN_PEERS:
            yield tuple(sorted(levels, key=lambda each: each[0]))


def _split_apart(levels: Sequence[Level], is_low: bool) -> tuple[tuple[Level, ...], float, float]:
    """Split off up to a quarter at one end, at the widest gap.

    Returns them, the ratio across the gap, and the nearest level behind it.
    """
    ordered = levels if is_low else levels[::-1]
    most = max(1, len(ordered) // 4)

    def ratio_at(count: int) -> float:
        inner, outer = ordered[count][0], ordered[count - 1][0]
        return inner / outer if is_low else outer / inner

    count = max(range(1, most + 1), key=ratio_at)
    return tuple(ordered[:count]), ratio_at(count), ordered[count][0]
