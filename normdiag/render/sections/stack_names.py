"""How a stack is called."""

from __future__ import annotations

from normdiag.render.escape import shorten_text


def name_stack(id: str) -> str:
    """Return the id of a stack; that of a stack at the root of the module tree is empty."""
    return shorten_text(id) or "the model (root)"
