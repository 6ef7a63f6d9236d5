"""The norms that are worth looking at first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from normdiag.evidence.architecture import Gain, Norm
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.render.badness import badness
from normdiag.render.escape import folded
from normdiag.render.page import QUIET, Column, Page, heading, prose, room, table
from normdiag.render.units import count, number, percent
from normdiag.report.report import Report

_SHOWN = 8
_NARROWEST_NAME = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """One norm and what was measured at it."""

    norm: Norm
    seen: NormMeasurement

    @property
    def kappa(self) -> float | None:
        jacobian = self.seen.jacobian
        return None if jacobian is None or jacobian.kappa is None else jacobian.kappa.max

    @property
    def rank(self) -> tuple[float, float, float]:
        """Epsilon share in whole percent, then kappa, then how small the variance is."""
        return (
            round(badness(self.seen.eps_share.max), 2),
            badness(self.kappa or 0.0),
            badness(-self.seen.input_var.median),
        )


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield a table of norms, the worst first."""
    sites = [
        _Site(norm=norm, seen=report.measurements.norms[norm.id])
        for norm in report.architecture.norms
        if norm.id in report.measurements.norms
    ]
    if not sites:
        return
    sites.sort(key=lambda site: site.rank, reverse=True)
    shown = sites if page.all_rows else sites[:_SHOWN]
    yield heading("Norms, the worst first", f"{len(shown)} of {len(sites)}")
    yield prose(
        "variance: what the norm divides by the root of, median over tokens. eps: how much of that "
        "sum is epsilon (largest). kappa: by how much the norm stretches some directions "
        "more than others (largest). |gain|: smallest to largest.",
        QUIET,
    )
    yield _table(shown, page)
    if len(sites) > len(shown):
        yield prose(_rest(sites[len(shown) :]))


def _table(shown: list[_Site], page: Page) -> RenderableType:
    fixed = [
        Column(title="role", right=False, width=max(len(site.norm.role) for site in shown)),
        Column(title="variance", width=8),
        Column(title="eps", width=7),
        Column(title="kappa", width=7),
        Column(title="|gain|", width=max(10, *(len(_gain(site.norm.gain)) for site in shown))),
    ]
    width = max(room(page, fixed), _NARROWEST_NAME)
    rows = [
        [
            Text(folded(site.norm.id, width)),
            Text(site.norm.role),
            Text(number(site.seen.input_var.median)),
            Text(percent(site.seen.eps_share.max)),
            Text(number(site.kappa)),
            Text(_gain(site.norm.gain)),
        ]
        for site in shown
    ]
    return table([Column(title="norm", right=False), *fixed], rows)


def _gain(gain: Gain | None) -> str:
    if gain is None:
        return "none"
    return f"{number(gain.min_abs, 2)}..{number(gain.max_abs, 2)}"


def _rest(rest: list[_Site]) -> str:
    share = max(site.seen.eps_share.max for site in rest)
    kappas = [site.kappa for site in rest if site.kappa is not None]
    said = f"and {count(len(rest), 'more norm')}, all with an eps share of at most {percent(share)}"
    return said + (f" and a kappa of at most {number(max(kappas))}" if kappas else "")
