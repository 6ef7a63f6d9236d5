"""Read saved documents: a report, a series of reports, or a comparison."""

from __future__ import annotations

from pathlib import Path

from normdiag.errors import ReportError
from normdiag.report import v1
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report
from normdiag.report.series import Series


def load_saved(path: str | Path) -> Report | Series | Comparison:
    """Read a report, a series or a comparison.

    Raises ReportError where the file cannot be read, is not one of them, is damaged, or has a newer
    major version of the format.
    """
    origin = repr(str(path))
    document = v1.parse_document(_read_text(path), origin)
    if "headline" in document:
        return v1.read_record(document, Comparison, origin)
    if "reports" in document:
        return v1.read_record(document, Series, origin)
    return v1.read_record(document, Report, origin)


def load_reports(path: str | Path) -> Report | Series:
    """Read a report, or those of several targets. Raises ReportError, for a comparison too."""
    saved = load_saved(path)
    if isinstance(saved, Comparison):
        raise ReportError(
            f"{str(path)!r} holds a comparison, not a report",
            "use `normdiag render` to show it, or give the report of one model",
        )
    return saved


def load_report(path: str | Path) -> Report:
    """Read the report of one target.

    Raises ReportError as `load_saved` does, and for other documents.
    """
    saved = load_reports(path)
    if isinstance(saved, Series):
        raise ReportError(
            f"{str(path)!r} holds the reports of several targets, not one",
            "`normdiag render` and `normdiag check` read it",
        )
    return saved


def _read_text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")  # some editors put a mark first
    except OSError as error:
        raise ReportError(
            f"cannot read the report {str(path)!r}: {error.strerror or error}",
            "give the path of a file that `normdiag inspect TARGET --json FILE` has written",
        ) from error
    except UnicodeDecodeError as error:
        raise ReportError(
            f"{str(path)!r} is not a normdiag report: it is not text ({error.reason})",
            "to look into a checkpoint, use `normdiag inspect` on it",
        ) from error
