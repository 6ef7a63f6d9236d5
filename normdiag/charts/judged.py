"""Quantities that rules judge: how near each is to its threshold, at its worst site.

Nearness is value / threshold, or threshold / value for a rule that reports small values: 1 is the
threshold. Where a rule needs two conditions at one site, the one that is further away counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from normdiag.charts.thresholds import read_limit
from normdiag.report.report import Report

Rated = tuple[str, float, float]
"""Site, value, nearness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One quantity and the threshold that it is compared with."""

    code: str
    quantity: str
    threshold: str
    """The name of the threshold."""
    read_sites: Callable[[Report, float], Iterable[Rated]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """The worst site of one quantity."""

    code: str
    quantity: str
    site: str
    value: float
    threshold: float
    nearness: float


def rank_nearness(report: Report) -> list[Nearness]:
    """Return the worst site of every quantity that was measured, the nearest first."""
    found = []
    for judged in QUANTITIES:
        limit = read_limit(report, judged.code, judged.threshold)
        worst = max(
            (each for each in judged.read_sites(report, limit) if each[2] == each[2]),
            key=lambda each: each[2],
            default=None,
        )
        if worst is not None:
            site, value, nearness = worst
            found.append(
                Nearness(
                    code=judged.code,
                    quantity=judged.quantity,
                    site=site,
                    value=value,
                    threshold=limit,
                    nearness=nearness,
                )
            )
    return sorted(found, key=lambda each: -each.nearness)


def _divide(part: float, whole: float) -> float:
    if whole == 0:
        return float("nan") if part == 0 else float("inf")
    return part / whole


def _rate_updates(report: Report, limit: float) -> Iterator[Rated]:
    for site, at in report.measurements.stream.items():
        yield site, at.update_ratio.median, _divide(limit, at.update_ratio.median)


def _rate_overwrites(report: Report, limit: float) -> Iterator[Rated]:
    later = {add.id for add in report.architecture.residual_adds if add.layer > 0}
    for site, at in report.measurements.stream.items():
        if site in later:
            yield site, at.update_ratio.median, at.update_ratio.median / limit


def _rate_cancelling(report: Report, limit: float) -> Iterator[Rated]:
    cosine = read_limit(report, "ND404", "cosine")
    for site, at in report.measurements.stream.items():
        if at.out_ratio is not None:
            near = min(_divide(limit, at.out_ratio.median), at.cosine.median / cosine)
            yield site, at.out_ratio.median, near


def _rate_likeness(report: Report, limit: float) -> Iterator[Rated]:
    for stack in report.architecture.stacks:
        adds = report.architecture.adds_of_stack(stack.id)
        at = report.measurements.stream.get(adds[-1].id) if adds else None
        if at is not None and at.token_cosine is not None:
            yield adds[-1].id, at.token_cosine, at.token_cosine / limit


def _rate_large_values(report: Report, limit: float) -> Iterator[Rated]:
    ratio = read_limit(report, "ND304", "ratio")
    for site, at in report.measurements.stream.items():
        near = min(at.max_abs / limit, _divide(at.max_abs, ratio * at.median_abs))
        yield site, at.max_abs, near


def _rate_epsilon(report: Report, limit: float) -> Iterator[Rated]:
    for site, at in report.measurements.norms.items():
        if 2 * at.constant < at.tokens:
            yield site, at.eps_share.median, at.eps_share.median / limit


def _rate_channels(report: Report, limit: float) -> Iterator[Rated]:
    for site, at in report.measurements.norms.items():
        if at.channel_share is not None:
            yield site, at.channel_share, at.channel_share / limit


def _rate_kappa(report: Report, limit: float) -> Iterator[Rated]:
    dead = {n.id for n in report.architecture.norms if n.gain is not None and n.gain.dead}
    for site, at in report.measurements.norms.items():
        if at.jacobian is not None and at.jacobian.kappa is not None and site not in dead:
            yield site, at.jacobian.kappa.median, at.jacobian.kappa.median / limit


def _rate_amplification(report: Report, limit: float) -> Iterator[Rated]:
    for site, at in report.measurements.norms.items():
        if at.jacobian is not None and 2 * at.constant < at.tokens:
            yield site, at.jacobian.sigma_max.median, at.jacobian.sigma_max.median / limit


def _rate_blocks(report: Report, limit: float) -> Iterator[Rated]:
    for site, at in report.measurements.blocks.items():
        if at.kappa is not None and at.span != "stack":
            yield site, at.kappa, at.kappa / limit


def _rate_logits(report: Report, limit: float) -> Iterator[Rated]:
    for site, at in report.measurements.attention_logits.items():
        yield site, at.max_abs, at.max_abs / limit


def _rate_gains(report: Report, limit: float) -> Iterator[Rated]:
    for norm in report.architecture.norms:
        if norm.gain is not None and norm.gain.median_abs:
            ratio = norm.gain.max_abs / norm.gain.median_abs
            yield norm.id, ratio, ratio / limit


def _rate_falling_gradients(report: Report, limit: float) -> Iterator[Rated]:
    gradients, total = report.measurements.gradients, read_limit(report, "ND601", "total")
    for stack, trend in gradients.trends.items() if gradients is not None else ():
        yield stack, trend.rate, min(trend.rate / limit, trend.total / total)


def _rate_rising_gradients(report: Report, limit: float) -> Iterator[Rated]:
    gradients, total = report.measurements.gradients, read_limit(report, "ND602", "total")
    for stack, trend in gradients.trends.items() if gradients is not None else ():
        rate, whole = _divide(1.0, trend.rate), _divide(1.0, trend.total)
        yield stack, rate, min(rate / limit, whole / total)


def _rate_headroom(report: Report, limit: float) -> Iterator[Rated]:
    precision = report.measurements.precision
    half = None if precision is None else precision.formats.get("float16")
    if half is not None and half.headroom is not None:
        yield half.headroom_site or "", half.headroom, _divide(limit, half.headroom)


QUANTITIES = (
    Judged(
        code="ND402",
        quantity="smallest update ratio",
        threshold="update_ratio",
        read_sites=_rate_updates,
    ),
    Judged(
        code="ND403",
        quantity="largest update ratio",
        threshold="update_ratio",
        read_sites=_rate_overwrites,
    ),
    Judged(
        code="ND404",
        quantity="what an update leaves of the stream",
        threshold="out_ratio",
        read_sites=_rate_cancelling,
    ),
    Judged(
        code="ND405",
        quantity="cosine between tokens",
        threshold="token_cosine",
        read_sites=_rate_likeness,
    ),
    Judged(
        code="ND304",
        quantity="largest value of the stream",
        threshold="magnitude",
        read_sites=_rate_large_values,
    ),
    Judged(
        code="ND301",
        quantity="share of epsilon",
        threshold="eps_share_notable",
        read_sites=_rate_epsilon,
    ),
    Judged(
        code="ND305", quantity="share of one channel", threshold="share", read_sites=_rate_channels
    ),
    Judged(code="ND501", quantity="kappa of a norm", threshold="kappa", read_sites=_rate_kappa),
    Judged(
        code="ND502",
        quantity="amplification by a norm",
        threshold="sigma_max",
        read_sites=_rate_amplification,
    ),
    Judged(code="ND503", quantity="kappa of a block", threshold="kappa", read_sites=_rate_blocks),
    Judged(code="ND504", quantity="attention logit", threshold="logit", read_sites=_rate_logits),
    Judged(
        code="ND202",
        quantity="largest gain / median gain",
        threshold="ratio_notable",
        read_sites=_rate_gains,
    ),
    Judged(
        code="ND601",
        quantity="fall of the gradient per layer",
        threshold="rate",
        read_sites=_rate_falling_gradients,
    ),
    Judged(
        code="ND602",
        quantity="rise of the gradient per layer",
        threshold="rate",
        read_sites=_rate_rising_gradients,
    ),
    Judged(
        code="ND701",
        quantity="headroom in float16",
        threshold="headroom",
        read_sites=_rate_headroom,
    ),
)
"""Every quantity that one threshold is compared with, site by site."""
