"""What can be asked for on the command line, in groups that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
    typer.Argument(metavar="REPORT", help="A report saved with --json.", show_default=False),
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
        help="A target, as for inspect, or a saved report: a file that ends in .json.",
        show_default=False,
    ),
]
Sites = Annotated[
    list[str] | None,
    typer.Option(
        "--site",
        metavar="ID",
        help="Zoom into this add or norm (trace). May be repeated.",
        rich_help_panel="Output",
    ),
]


class Format(StrEnum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"


class Dtype(StrEnum):
    """What the weights are cast to when they are loaded."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


class FailOn(StrEnum):
    """The severity from which findings fail the command."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"


def _choices(options: type[StrEnum]) -> str:
    return "|".join(options)


@dataclass(frozen=True, kw_only=True)
class Loading:
    """Loading."""

    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Run there, such as cuda:0. Default: cpu."),
    ] = None
    dtype: Annotated[
        Dtype | None,
        typer.Option(metavar=_choices(Dtype), help="Cast to this. Default: as it is stored."),
    ] = None
    revision: Annotated[
        str | None, typer.Option(metavar="REV", help="Branch, tag or commit on the hub.")
    ] = None
    random_init: Annotated[
        bool,
        typer.Option("--random-init", help="Seeded weights from the config alone; load none."),
    ] = False
    structure_only: Annotated[
        bool, typer.Option("--structure-only", help="The architecture alone; no weights at all.")
    ] = False
    weights_only: Annotated[
        bool, typer.Option("--weights-only", help="Look at the stored tensors only; run nothing.")
    ] = False
    adapter: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Merge this LoRA into the target (peft).")
    ] = None
    trust_remote_code: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="Let the checkpoint's own Python code run."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Probe."""

    text: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Run this text; - reads stdin. May be repeated."),
    ] = None
    texts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help='Run these: one a line, or .jsonl with "text" on each line.'
        ),
    ] = None
    ids: Annotated[
        list[str] | None,
        typer.Option(metavar="IDS", help='Run these token ids: "1,2,3". May be repeated.'),
    ] = None
    inputs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Just what forward takes: .safetensors or .json."),
    ] = None
    chat: Annotated[bool, typer.Option("--chat", help="Put each text into the chat template.")] = (
        False
    )
    no_special_tokens: Annotated[
        bool, typer.Option("--no-special-tokens", help="Let the tokenizer add none.")
    ] = False
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Seed of all that is random. Default: 0."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """Measuring."""

    measure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KINDS",
            help="stream, norms, jacobians, gradients, by commas; or none. Default: all.",
        ),
    ] = None
    all_tokens: Annotated[
        bool, typer.Option("--all-tokens", help="Norm Jacobians at every token, not a sample.")
    ] = False
    clip: Annotated[
        float | None,
        typer.Option(
            metavar="NORM", help="Global norm at which gradients are clipped. Default: 1."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Observing:
    """All that decides what is run and measured."""

    loading: Loading = Loading()
    probe: Probe = Probe()
    measuring: Measuring = Measuring()


@dataclass(frozen=True, kw_only=True)
class Second:
    """Second target."""

    b_dtype: Annotated[
        Dtype | None,
        typer.Option(metavar=_choices(Dtype), help="Cast B to this."),
    ] = None
    b_device: Annotated[str | None, typer.Option(metavar="NAME", help="Run B there.")] = None
    b_revision: Annotated[
        str | None,
        typer.Option(metavar="REV", help="Branch, tag or commit of B on the hub."),
    ] = None
    b_adapter: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Merge this LoRA into B (peft)."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Comparing:
    """How both targets are observed, and how the second otherwise."""

    observing: Observing = Observing()
    second: Second = Second()


@dataclass(frozen=True, kw_only=True)
class Judging:
    """Judging."""

    select: Annotated[
        list[str] | None,
        typer.Option(metavar="CODES", help="Judge by these rules only: ND3,ND401."),
    ] = None
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="CODES", help="Leave these rules out.")
    ] = None
    fail_on: Annotated[
        FailOn | None,
        typer.Option(
            metavar=_choices(FailOn),
            help="Exit 1 from this severity. Default: error for check, else never.",
        ),
    ] = None
    require_complete: Annotated[
        bool, typer.Option("--require-complete", help="Exit 4 if a rule lacked its evidence.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Gating:
    """Gating."""

    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Fail on what is new or worse than in this report only."),
    ] = None
    margin: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", min=0, help="A value is worse if past the old by more. Default: 0.1."
        ),
    ] = None
    at_most: Annotated[
        list[str] | None,
        typer.Option(
            "--max", metavar="PATH=N", help="Fail if a number of the report is above N. Repeatable."
        ),
    ] = None
    at_least: Annotated[
        list[str] | None,
        typer.Option("--min", metavar="PATH=N", help="Fail if it is below N. May be repeated."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Output:
    """Output."""

    format: Annotated[
        Format,
        typer.Option("--format", "-f", metavar=_choices(Format), help="How to write the report."),
    ] = Format.TEXT
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write there, not on stdout."),
    ] = None
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also save the report as JSON."),
    ] = None
    all_rows: Annotated[bool, typer.Option("--all", help="Every row; fold no long model.")] = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Say more on stderr: what each part costs, tracebacks of faults.",
        ),
    ] = False
