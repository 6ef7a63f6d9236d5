"""The charts of a report as objects of altair, which a notebook shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from normdiag.errors import UsageError

if TYPE_CHECKING:
    from normdiag.report.report import Report


class Plots:
    """The charts of one report: `report.plot.stream_norm()` returns an `altair.Chart`.

    `dir(report.plot)` and `repr(report.plot)` list them. Each call raises UsageError where altair
    is not installed, or where the report holds nothing to draw.
    """

    def __init__(self, report: Report) -> None:
        self._report = report

    def __getattr__(self, name: str) -> Callable[[], Any]:
        charts = _find_charts()
        if name.startswith("__") or name not in charts:
            raise AttributeError(f"there is no chart {name!r}; charts are {', '.join(charts)}")
        return lambda: _draw_chart(charts[name], self._report)

    def __dir__(self) -> list[str]:
        return sorted(_find_charts())

    def __repr__(self) -> str:
        return f"<charts of the report: {', '.join(_find_charts())}>"


def _find_charts() -> Mapping[str, Callable[[Report], dict[str, Any]]]:
    charts: Mapping[str, Callable[[Report], dict[str, Any]]] = import_module(
        "normdiag.charts"
    ).CHARTS
    return charts


def _draw_chart(specify: Callable[[Report], dict[str, Any]], report: Report) -> Any:
    """The altair chart of a Vega-Lite specification. altair is imported where one is drawn."""
    from normdiag.argument_names import name_arguments

    with name_arguments():
        specification = specify(report)
    try:
        altair: Any = import_module("altair")
    except ImportError as error:
        raise UsageError(
            f"a chart needs altair, which cannot be imported: {error}",
            'pip install "normdiag[html]"',
        ) from error
    return altair.Chart.from_dict(specification)
