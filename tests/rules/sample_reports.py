"""Reports of the sample models, inspected once in a process."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from normdiag.pipeline import Options, inspect
from normdiag.report.report import Report

ROOT = Path(__file__).parents[2]
COSTLY = {"jacobian": "jacobians", "gradient": "gradients", "coverage": "defaults"}
"""Families of rules -> what is measured for them alone."""


@cache
def inspect_target(target: str, family: str = "") -> Report:
    more = (COSTLY[family],) if family in COSTLY else ()
    return inspect(target, options=Options(measure=("stream", "norms", *more)))


def target(path: str, folder: Path) -> str:
    """What `inspect` takes for the sample model `path`; a checkpoint is written first."""
    script, _, factory = path.partition(":")
    if factory != "write":
        return str(ROOT / path)
    directory = folder / Path(script).stem
    if not directory.exists():
        import_module(script.removesuffix(".py").replace("/", ".")).write(directory)
    return str(directory)
