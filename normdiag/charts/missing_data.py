"""The error of a chart for which a report has no numbers."""

from __future__ import annotations

from normdiag.errors import UsageError


class MissingDataError(UsageError):
    """The report holds nothing that this chart could draw."""
