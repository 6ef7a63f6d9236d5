"""The script that draws charts in the page: Vega, Vega-Lite and vega-embed in one piece.

vl-convert carries them; bundling takes seconds, so the result is kept in the user's cache
directory, by version.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.metadata import version
from pathlib import Path

from normdiag.errors import UsageError
from normdiag.report.atomic import write_atomically

_SNIPPET = "window.vegaEmbed = vegaEmbed;"
"""What the page uses of the bundle."""


def read_bundle() -> str:
    """Return the script, from the cache where it is there.

    It is wrapped in a function, since it declares short names of its own, and can stand in a
    script element.
    """
    import vl_convert

    path = find_cache_directory() / f"vega-bundle-{version('vl-convert-python')}.js"
    with contextlib.suppress(OSError, UnicodeDecodeError):  # no cache: it is made anew
        return path.read_text(encoding="utf-8")
    script = vl_convert.javascript_bundle(_SNIPPET).replace("</script", "<\\/script")
    bundle = f"(function () {{\n{script}\n}})();\n"
    with contextlib.suppress(OSError, UsageError):  # a read-only home: the next page is slower
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, bundle)
    return bundle


def find_cache_directory() -> Path:
    """Return normdiag's folder in the cache directory that the system has for the user."""
    if sys.platform == "darwin":
        home = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        home = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "normdiag"
