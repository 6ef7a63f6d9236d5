"""The libraries of the page, which `normdiag[html]` installs."""

from __future__ import annotations

from importlib.util import find_spec

from normdiag.errors import UsageError

LIBRARIES = ("jinja2", "vl_convert")


def require_libraries() -> None:
    """Raise UsageError where a library of the page is not installed; imports none of them."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"an HTML page needs {' and '.join(missing)}, which {_choose_verb(missing)} not "
            "installed",
            "pip install 'normdiag[html]'",
        )


def _choose_verb(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
