"""The content security policy of a page: nothing runs or loads but what the page itself holds."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable


def format_policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the policy that allows these inline scripts and styles, and images as data."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(hash_source, scripts))}",
            f"style-src {' '.join(map(hash_source, styles))}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def hash_source(text: str) -> str:
    """Return the source expression of one inline element (CSP level 3, section 2.3.1)."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
