"""Pictures of pages, taken by Debian's chromium."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

SCHEMES = {"light": 1, "dark": 0}
"""What chromium calls the colour schemes that a reader prefers."""
WIDTH = 1000
_LIMIT = 120
"""Seconds."""


def photograph_page(page: str, height: int, scheme: str) -> bytes:
    """Return a PNG of the top of a page, after its charts were drawn.

    Raises FileNotFoundError where there is no chromium.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        raise FileNotFoundError("there is no chromium: apt-get install chromium")
    with TemporaryDirectory() as folder:
        source, picture = Path(folder) / "page.html", Path(folder) / "page.png"
        source.write_text(page, encoding="utf-8")
        subprocess.run(
            [
                chromium,
                "--headless",
                "--no-sandbox",  # root has no user namespaces; the page is our own
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={folder}/profile",
                f"--window-size={WIDTH},{height}",
                f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
                "--virtual-time-budget=20000",
                f"--screenshot={picture}",
                source.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=_LIMIT,
        )
        return picture.read_bytes()
