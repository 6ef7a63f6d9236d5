"""The model of both pictures in the README: 48 blocks without any norm."""

from __future__ import annotations

from contextlib import chdir
from functools import cache
from pathlib import Path

from normdiag.pipeline import inspect
from normdiag.report.report import Report

ROOT = Path(__file__).parents[3]
MODEL = "sample_models/no_norm.py:build"


@cache
def inspect_broken() -> Report:
    """Inspect it as a user in the repository's root does."""
    with chdir(ROOT):
        return inspect(MODEL)
