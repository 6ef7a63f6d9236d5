"""Charts by name: what is drawn is the specification, and unknown names list the known ones."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

from normdiag.errors import UsageError
from tests import reports

SPECIFICATION = {
    "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
    "data": {"values": [{"x": 1, "y": 2}]},
    "mark": {"type": "point"},
    "encoding": {"x": {"field": "x", "type": "quantitative"}},
}


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One chart, whose title is the target of the report."""
    module = ModuleType("normdiag.charts")
    module.CHARTS = {"points": lambda report: {**SPECIFICATION, "title": report.subject.target}}
    monkeypatch.setitem(sys.modules, "normdiag.charts", module)


@pytest.mark.usefixtures("charts")
def test_a_chart_is_that_of_its_specification() -> None:
    altair = pytest.importorskip("altair")
    chart = reports.llama(3).plot.points()
    assert isinstance(chart, altair.Chart)
    drawn = chart.to_dict()
    assert drawn["title"] == "org/small"
    assert drawn["mark"] == SPECIFICATION["mark"]


@pytest.mark.usefixtures("charts")
def test_names_of_charts() -> None:
    plot = reports.llama(3).plot
    assert dir(plot) == ["points"]
    assert "points" in repr(plot)
    with pytest.raises(AttributeError, match=r"no chart 'lines'; charts are points$"):
        plot.lines()


@pytest.mark.usefixtures("charts")
def test_without_altair_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(UsageError, match=r"normdiag\[html\]"):
        reports.llama(3).plot.points()


def test_every_chart_of_the_package_is_valid() -> None:
    pytest.importorskip("altair")
    registry = pytest.importorskip("normdiag.charts")
    drawn = 0
    for name in registry.CHARTS:
        try:
            chart = getattr(reports.llama(3).plot, name)()
        except UsageError:  # the report holds nothing that this chart shows
            continue
        chart.to_dict()
        drawn += 1
    assert drawn > 0


def test_a_report_imports_none_of_the_libraries_that_show_it() -> None:
    code = (
        "import sys, normdiag; normdiag.Report; normdiag.Plots; normdiag.render_report; "
        "print(*{'pandas', 'altair', 'rich', 'torch'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert (done.stdout, done.stderr) == ("\n", "")
