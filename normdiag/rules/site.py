"""Sites with the value that a rule judges, and how a finding describes several of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from normdiag.evidence.architecture import Norm, ResidualAdd, title_stack
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.norm_inputs import NormJacobian
from normdiag.evidence.record import record
from normdiag.findings import Severity
from normdiag.number_text import format_count


@record
class RatedSite:
    """A norm or add with the value that a rule judges."""

    id: str
    value: float
    stack: str | None
    layer: int | None


def rate_site(site: Norm | ResidualAdd, value: float) -> RatedSite:
    """Attach `value` to a norm or add."""
    return RatedSite(id=site.id, value=value, stack=site.stack, layer=site.layer)


def sort_worst_first(sites: Iterable[RatedSite]) -> tuple[RatedSite, ...]:
    """Sort sites by value, largest first; equal ones stay in the order of the forward."""
    return tuple(sorted(sites, key=lambda site: -site.value))


SiteGrade = tuple[tuple[RatedSite, ...], Severity, float]
"""Sites, the severity of their finding, and the threshold that they exceed."""


def grade_sites(sites: Iterable[RatedSite], high: float, low: float) -> Iterator[SiteGrade]:
    """Yield the sites above `high` as a warning, then those above `low` only as info."""
    ordered = sort_worst_first(sites)
    severe = tuple(each for each in ordered if each.value > high)
    notable = tuple(each for each in ordered if low < each.value <= high)
    if severe:
        yield severe, "warning", high
    if notable:
        yield notable, "info", low


def find_norm(evidence: Evidence, site: RatedSite) -> Norm:
    """Return the norm of a site."""
    return next(norm for norm in evidence.architecture.norms if norm.id == site.id)


def site_ids(sites: Iterable[RatedSite]) -> tuple[str, ...]:
    """Return the ids of sites in their order."""
    return tuple(site.id for site in sites)


def describe_places(sites: Sequence[RatedSite]) -> str:
    """Describe places: "layers 3-31 of model.layers", or the id of a single site."""
    if len(sites) == 1:
        return sites[0].id
    layers: dict[str, set[int]] = {}
    unplaced: list[str] = []
    for each in sites:
        if each.stack is None or each.layer is None:
            unplaced.append(each.id)
        else:
            layers.setdefault(each.stack, set()).add(each.layer)
    named = [
        f"{format_layers(numbers)} of {title_stack(stack)}" for stack, numbers in layers.items()
    ]
    return list_places([*named, *unplaced])


def describe_sites(sites: Sequence[RatedSite], noun: str) -> str:
    """Describe sites: "at h.4.ln", or "at 2 norms, layers 3-4 of h; worst h.4.ln"."""
    worst = sites[0].id
    if len(sites) == 1:
        return f"at {worst}"
    return f"at {format_count(len(sites), noun)}, {describe_places(sites)}; worst {worst}"


def format_layers(layers: Iterable[int]) -> str:
    """Format layer numbers: "layer 4", "layers 0, 3-31 and 35"."""
    ordered = sorted(set(layers))
    runs = [
        [layer for _, layer in run]
        for _, run in groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    ]
    spans = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"{'layer' if len(ordered) == 1 else 'layers'} {_join_words(spans)}"


def statistic_unit(norm: Norm) -> str:
    """Name what one statistic of a norm is taken over: a token, group or channel."""
    return {"groupnorm": "group", "batchnorm": "channel"}.get(norm.kind, "token")


def trace_hint(evidence: Evidence, site_id: str) -> str:
    """Return a hint with the command that traces one site."""
    target = shlex.quote(evidence.subject.target)
    return f"see: normdiag trace {target} --site {shlex.quote(site_id)}"


def _join_words(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def list_places(places: Sequence[str], most: int = 4) -> str:
    """List places in words, "a, b and c", "a, b, c, d and 3 more"."""
    if len(places) <= most:
        return _join_words(places)
    return f"{', '.join(places[:most])} and {len(places) - most} more"


def describe_sample(jacobian: NormJacobian | None) -> str:
    """What its medians are over: "16 sampled tokens", "tokens" where their number is not known."""
    if jacobian is None or jacobian.sample is None:
        return "tokens"
    is_whole = jacobian.sample == jacobian.tokens
    return format_count(jacobian.sample, "token" if is_whole else "sampled token")
