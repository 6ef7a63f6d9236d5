"""How a stack is called."""

from __future__ import annotations

import re

from normdiag.evidence.architecture import title_stack
from normdiag.render.escape import shorten_text


def name_stack(id: str) -> str:
    """Return the title of a stack, shortened."""
    return shorten_text(title_stack(id))


def shorten_add_id(id: str, stack: str) -> str:
    """Return the id without the stack, which a heading names, and without the layer's number."""
    return re.sub(r"^\d+[./]", "", id.removeprefix(f"{stack}."))
