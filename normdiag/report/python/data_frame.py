"""A table of a report as a pandas data frame. pandas is imported where a frame is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from normdiag.errors import UsageError
from normdiag.report.python.tables import list_columns, list_rows

if TYPE_CHECKING:
    from normdiag.report.report import Report


def build_frame(report: Report, table: str) -> Any:
    """Return one of `tables.TABLES` as a `pandas.DataFrame`.

    Raises UsageError for a table that there is not, and without pandas.
    """
    rows = list_rows(report, table)
    try:
        pandas: Any = import_module("pandas")
    except ImportError as error:
        raise UsageError(
            f"a data frame needs pandas, which cannot be imported: {error}", "pip install pandas"
        ) from error
    columns = None if rows else list_columns(table)
    return pandas.DataFrame.from_records(rows, columns=columns)
