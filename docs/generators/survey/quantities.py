"""The quantities that rules compare with thresholds, read from a report in JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Report = dict[str, Any]


def _gains(report: Report) -> Iterator[tuple[Report, Report]]:
    """Norms that have a gain, each with it."""
    for norm in report["architecture"]["norms"]:
        if norm["gain"] is not None:
            yield norm, norm["gain"]


def _dead_shares(report: Report) -> Iterator[float]:
    for norm, gain in _gains(report):
        yield gain["dead"] / norm["features"]


def _gain_ratios(report: Report) -> Iterator[float]:
    for _, gain in _gains(report):
        if gain["median_abs"]:
            yield gain["max_abs"] / gain["median_abs"]


def _condition_numbers(report: Report) -> Iterator[float]:
    """Median kappas of norms without dead gains, which ND501 leaves to ND201."""
    dead = {norm["id"] for norm, gain in _gains(report) if gain["dead"]}
    for name, norm in report["measurements"]["norms"].items():
        jacobian = norm["jacobian"]
        if name not in dead and jacobian is not None and jacobian["kappa"] is not None:
            yield jacobian["kappa"]["median"]


def _amplifications(report: Report) -> Iterator[float]:
    for norm in report["measurements"]["norms"].values():
        if norm["jacobian"] is not None:
            yield norm["jacobian"]["sigma_max"]["median"]


def _magnitude_ratios(report: Report) -> Iterator[float]:
    for add in report["measurements"]["stream"].values():
        if add["median_abs"]:
            yield add["max_abs"] / add["median_abs"]


def _of_norms(*keys: str) -> Callable[[Report], Iterator[float]]:
    return lambda report: _values(report["measurements"]["norms"], keys)


def _of_adds(*keys: str) -> Callable[[Report], Iterator[float]]:
    return lambda report: _values(report["measurements"]["stream"], keys)


def _values(records: dict[str, Any], keys: tuple[str, ...]) -> Iterator[float]:
    """The value under `keys` of every record that has one."""
    for record in records.values():
        value: Any = record
        for key in keys:
            value = None if value is None else value[key]
        if value is not None:
            yield value


def _layers(report: Report) -> Iterator[float]:
    for stack in report["architecture"]["stacks"]:
        if stack["placement"] == "post":
            yield stack["layers"]


QUANTITIES: dict[str, Callable[[Report], Iterator[float]]] = {
    "ND101.layers": _layers,
    "ND201.share": _dead_shares,
    "ND202.ratio": _gain_ratios,
    "ND202.ratio_notable": _gain_ratios,
    "ND301.eps_share": _of_norms("eps_share", "median"),
    "ND301.eps_share_notable": _of_norms("eps_share", "median"),
    "ND303.mean_energy": _of_norms("mean_energy"),
    "ND304.magnitude": _of_adds("max_abs"),
    "ND304.ratio": _magnitude_ratios,
    "ND305.share": _of_norms("channel_share"),
    "ND305.dominant": _of_norms("channel_share"),
    "ND402.update_ratio": _of_adds("update_ratio", "median"),
    "ND403.update_ratio": _of_adds("update_ratio", "median"),
    "ND404.out_ratio": _of_adds("out_ratio", "median"),
    "ND404.cosine": _of_adds("cosine", "median"),
    "ND405.token_cosine": _of_adds("token_cosine"),
    "ND501.kappa": _condition_numbers,
    "ND501.kappa_notable": _condition_numbers,
    "ND502.sigma_max": _amplifications,
}
"""Code and threshold -> the values of a report that are compared with it."""

SMALLEST = frozenset({"ND402.update_ratio", "ND404.out_ratio", "ND404.cosine"})
"""Those of which values below the threshold are reported."""
