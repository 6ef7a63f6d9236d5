"""The norms that are worth looking at first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from normdiag.evidence.architecture import Norm
from normdiag.evidence.gains import Gain
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.number_text import format_count, format_number, format_percent
from normdiag.render.elements import Column, Element, Heading, Name, Number, Row, Sentence, Table
from normdiag.render.sections.norm_formulas import describe_epsilons
from normdiag.render.sort_key import nan_as_largest
from normdiag.report.report import Report

_SHOWN = 8
_NOTABLE_SHARE = 0.01
"""Below this epsilon changes the output by less than half a percent, and kappa decides."""
_COLUMNS = (
    Column(title="norm"),
    Column(title="role"),
    Column(
        title="variance",
        align="right",
        meaning="mean square of the (centred) input, before eps is added, median over tokens",
    ),
    Column(
        title="eps share",
        align="right",
        meaning="share of epsilon in the denominator, eps / (variance + eps) in a root, largest "
        "over tokens",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """One norm and what was measured at it."""

    norm: Norm
    measurement: NormMeasurement

    @property
    def largest_kappa(self) -> float | None:
        """The largest condition number over tokens, over live gains where that is known."""
        return find_largest_kappa(self.measurement)

    @property
    def is_exact(self) -> bool:
        """Whether the largest condition number is that of all tokens."""
        jacobian = self.measurement.jacobian
        if jacobian is None or self.norm.kind == "batchnorm":
            return True
        return jacobian.sample is not None and jacobian.tokens >= self.measurement.tokens

    @property
    def sort_key(self) -> tuple[float, float, float]:
        """Epsilon share where it counts, then kappa, then how small the variance is."""
        eps_share = nan_as_largest(self.measurement.eps_share.max)
        return (
            eps_share if eps_share >= _NOTABLE_SHARE else 0.0,
            nan_as_largest(self.largest_kappa or 0.0),
            nan_as_largest(-self.measurement.input_var.median),
        )


def find_largest_kappa(measurement: NormMeasurement) -> float | None:
    """Return the largest condition number over tokens, over live gains where that is known."""
    jacobian = measurement.jacobian
    kappa = None if jacobian is None else jacobian.live_kappa or jacobian.kappa
    return None if kappa is None else kappa.max


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield a table of norms: those where epsilon counts first, the others by kappa."""
    sites = [
        _Site(norm=norm, measurement=report.measurements.norms[norm.id])
        for norm in report.architecture.norms
        if norm.id in report.measurements.norms
    ]
    if not sites:
        return
    sites.sort(key=lambda site: site.sort_key, reverse=True)
    shown = sites if all_rows else sites[:_SHOWN]
    yield Heading(
        title="Norms",
        detail=f"{len(shown)} of {len(sites)}, by eps share (if at least 1%), then kappa",
    )
    yield Table(columns=_list_columns(sites), rows=tuple(map(_make_row, shown)))
    for line in describe_epsilons(report.architecture.norms):
        yield Sentence(text=line)
    if len(sites) > len(shown):
        yield Sentence(text=_describe_rest(sites[len(shown) :]))


def _list_columns(sites: list[_Site]) -> tuple[Column, ...]:
    over = "all tokens" if all(site.is_exact for site in sites) else "sampled tokens"
    kappa = (
        f"condition number of the norm's Jacobian without the directions that the norm removes "
        f"and gains near 0, largest over {over}"
    )
    return (
        *_COLUMNS,
        Column(title="kappa", align="right", meaning=kappa),
        Column(title="|gain|", align="right", meaning="smallest to largest"),
        Column(
            title="smallest",
            align="right",
            meaning="variance, smallest over tokens",
            is_extra=True,
        ),
        Column(
            title="sigma_max",
            align="right",
            meaning=f"largest singular value of the Jacobian, largest over {over}",
            is_extra=True,
        ),
        Column(
            title="channel",
            align="right",
            meaning="largest share of one channel in ||x||^2, median over sampled tokens",
            is_extra=True,
        ),
    )


def _make_row(site: _Site) -> Row:
    jacobian = site.measurement.jacobian
    return Row(
        cells=(
            Name(text=site.norm.id),
            Name(text=site.norm.role),
            Number(value=site.measurement.input_var.median),
            Number(value=site.measurement.eps_share.max, write=format_percent),
            Number(value=site.largest_kappa),
            _format_gain(site.norm.gain),
            Number(value=site.measurement.input_var.min),
            Number(value=None if jacobian is None else jacobian.sigma_max.max),
            Number(value=site.measurement.channel_share, write=_write_share),
        )
    )


def _write_share(value: float | None) -> str:
    return "-" if value is None else format_percent(value)


def _format_gain(gain: Gain | None) -> str:
    if gain is None:
        return "none"
    return f"{format_number(gain.min_abs)}..{format_number(gain.max_abs)}"


def _describe_rest(sites: list[_Site]) -> str:
    share = max(site.measurement.eps_share.max for site in sites)
    kappas = [site.largest_kappa for site in sites if site.largest_kappa is not None]
    text = f"{format_count(len(sites), 'more norm')}: largest eps share {format_percent(share)}"
    return f"{text}, largest kappa {format_number(max(kappas))}." if kappas else f"{text}."
