"""What each command takes on the command line: targets, groups of options, and the output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from normdiag.cli.option_groups import ExpandedOptions, OptionValues, expand_groups
from normdiag.gate_options import CheckOptions, GateOptions
from normdiag.option_group import Option, OptionGroup, declared_options
from normdiag.options import InputOptions, JudgingOptions, LoadingOptions, MeasuringOptions

FORMATS = ("text", "json", "csv", "markdown", "sarif", "junit", "github", "html")

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="Hub id, directory, .safetensors, .gguf, or package.module:factory, file.py:factory.",
        show_default=False,
    ),
]
ReportFile = Annotated[
    Path,
    typer.Argument(metavar="REPORT", help="Report saved with --json.", show_default=False),
]
TargetsOrReports = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET_OR_REPORT",
        help="Targets, as for inspect, and saved reports: files that end in .json.",
        show_default=False,
    ),
]
TargetOrReport = Annotated[
    str,
    typer.Argument(
        metavar="TARGET_OR_REPORT",
        help="Target, as for inspect, or saved report: a file that ends in .json.",
        show_default=False,
    ),
]
Sites = Annotated[
    list[str] | None,
    typer.Option(
        "--site",
        metavar="ID",
        help="Show only this residual add or norm (trace). May be repeated.",
        rich_help_panel="Output",
    ),
]

OBSERVATION = expand_groups(LoadingOptions, InputOptions, MeasuringOptions)
SECOND_TARGET = ExpandedOptions(
    tuple(
        replace(
            declared,
            heading="Second target",
            default=None,
            option=replace(
                declared.option,
                flag=f"--b-{declared.flag.removeprefix('--')}",
                help=declared.option.second_target_help,
            ),
        )
        for declared in declared_options(LoadingOptions)
        if declared.option.second_target_help is not None
    )
)

Observation = Annotated[OptionValues, OBSERVATION]
"""What is loaded, run and measured."""
SecondTarget = Annotated[OptionValues, SECOND_TARGET]
"""How B of `compare` is loaded, where that differs from A."""
Judging = Annotated[OptionValues, expand_groups(JudgingOptions)]
Gating = Annotated[OptionValues, expand_groups(GateOptions)]
CheckGating = Annotated[OptionValues, expand_groups(CheckOptions)]


@dataclass(frozen=True, kw_only=True)
class Output(OptionGroup):
    """Where the report goes, and in which format."""

    heading: ClassVar[str] = "Output"

    format: Annotated[
        str, Option(short_flag="-f", choices=FORMATS, help="Format of the report.")
    ] = "text"
    output: Annotated[
        Path | None,
        Option(short_flag="-o", metavar="FILE", help="Write the report to this file, not stdout."),
    ] = None
    json: Annotated[Path | None, Option(metavar="FILE", help="Also save the report as JSON.")] = (
        None
    )
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Also write the report as a page with charts.")
    ] = None
    full: Annotated[
        bool, Option(help="Show all sections in the text, not the first screen alone.")
    ] = False
    all_rows: Annotated[
        bool, Option(flag="--all", help="Show all sections, and all rows of long tables.")
    ] = False
    color: Annotated[bool, Option(help="Write colours even where stdout is no terminal.")] = False
    no_color: Annotated[bool, Option(help="Write no colours.")] = False
    quiet: Annotated[
        bool,
        Option(
            short_flag="-q",
            help="Write nothing to stdout and only errors to stderr: files and the exit code.",
        ),
    ] = False
    verbose: Annotated[
        bool,
        Option(
            short_flag="-v",
            help="Write settings, timings and tracebacks of internal errors to stderr.",
        ),
    ] = False
