"""What a report has no numbers for: a whole chart, or single values of one."""

from __future__ import annotations

import math
from typing import Any

from normdiag.errors import UsageError


class MissingDataError(UsageError):
    """The report holds nothing that this chart could draw."""


def replace_non_finite(value: Any) -> Any:
    """Return a specification with null in the place of NaN and infinity, which JSON has not."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: replace_non_finite(each) for key, each in value.items()}
    return [replace_non_finite(each) for each in value] if isinstance(value, list) else value
