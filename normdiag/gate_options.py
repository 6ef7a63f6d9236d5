"""The options of the gate (when a command fails), for the command line and the settings file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, get_args

from normdiag.findings import FailOn
from normdiag.option_group import Option, OptionGroup


@dataclass(frozen=True, kw_only=True)
class GateOptions(OptionGroup):
    """When the command line fails."""

    heading: ClassVar[str] = "Gate"

    fail_on: Annotated[
        FailOn,
        Option(
            choices=get_args(FailOn),
            help="Exit 1 from this severity on. Default: error for check, else never.",
            in_settings=True,
        ),
    ] = "never"
    require_complete: Annotated[
        bool, Option(help="Exit 4 if evidence for a rule is missing.", in_settings=True)
    ] = False


@dataclass(frozen=True, kw_only=True)
class CheckOptions(GateOptions):
    """When `check` fails: also by a baseline and bounds."""

    baseline: Annotated[
        Path | None,
        Option(metavar="FILE", help="Fail only on findings new or worse than in this report."),
    ] = None
    max: Annotated[
        Mapping[str, float],
        Option(
            metavar="PATH=N",
            help="Fail if a number of the report is above N. May be repeated.",
            in_settings=True,
        ),
    ] = field(default_factory=dict)
    min: Annotated[
        Mapping[str, float],
        Option(
            metavar="PATH=N",
            help="Fail if a number of the report is below N. May be repeated.",
            in_settings=True,
        ),
    ] = field(default_factory=dict)
    margin: Annotated[
        float,
        Option(
            metavar="SHARE",
            help="Relative change from which a finding counts as worse.",
            at_least=0,
            in_settings=True,
        ),
    ] = 0.1
