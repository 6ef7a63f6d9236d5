"""How a stack is called."""

from __future__ import annotations

from normdiag.evidence.architecture import title_stack
from normdiag.render.escape import shorten_text


def name_stack(id: str) -> str:
    """Return the title of a stack, shortened."""
    return shorten_text(title_stack(id))
