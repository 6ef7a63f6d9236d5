"""Charts of a report, as Vega-Lite specifications (plain dicts) made from its numbers alone.

`CHARTS` maps the name of a chart to a function of a report that returns its specification, or
raises `MissingDataError` where the report holds nothing to draw.
"""

from normdiag.charts.missing_data import MissingDataError
from normdiag.charts.registry import CHARTS

__all__ = ["CHARTS", "MissingDataError"]
