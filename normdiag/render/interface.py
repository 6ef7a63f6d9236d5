"""What a renderer is: it writes one report to one console and returns nothing.

The console carries the file, the width and whether there is colour, so the same call serves a
terminal, a pipe, `--output FILE` and a test. Formats for machines ignore its width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rich.console import Console

from normdiag.report.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much is shown."""

    all_rows: bool = False
    """Every layer, norm and token; else long models are folded to first, worst and last."""
    sites: tuple[str, ...] = ()
    """Adds and norms to zoom into, by id (`trace`)."""


class Renderer(Protocol):
    """One format of one view."""

    def __call__(self, report: Report, console: Console, options: Options) -> None:
        """Write `report` to `console`."""
        ...
