"""Every string of a chart made visible, as `render.escape` does it for text."""

from __future__ import annotations

from typing import Any

from normdiag.render.escape import escape_text


def escape_strings(value: Any) -> Any:
    """Return a specification in which no string holds a control, an override or half a surrogate.

    Long names lose their middle; images (data URLs) stay.
    """
    if isinstance(value, str):
        return value if value.startswith("data:image/png;base64,") else escape_text(value)
    if isinstance(value, dict):
        return {key: escape_strings(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [escape_strings(item) for item in value]
    return value
