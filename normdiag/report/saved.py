"""Whatever normdiag has saved: one report, several, or a comparison."""

from __future__ import annotations

from pathlib import Path

from normdiag.report import v1
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report, text_of
from normdiag.report.series import Series


def load(path: str | Path) -> Report | Series | Comparison:
    """Read any of them. Raises ReportError."""
    origin = repr(str(path))
    found = v1.parse(text_of(path), origin)
    if "headline" in found:
        return v1.read(found, Comparison, origin)
    if "reports" in found:
        return v1.read(found, Series, origin)
    return v1.read(found, Report, origin)
