"""Every option, declared once: its type, default, limits and help.

A group is a frozen dataclass whose fields are `Annotated[type, Option(...)]`. Python callers pass the
fields to `normdiag.Options`; the command line and the settings file are generated from the
declarations (`declared_options`). A new option is one field here and the code that uses it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from normdiag.errors import UsageError
from normdiag.findings import FailOn
from normdiag.measures import DEFAULT_MEASURES, GROUPS, NONE, ONE_PASS_MEASURES, parse_measures

MEASURES, FROM_ONE_PASS = DEFAULT_MEASURES, ONE_PASS_MEASURES
DTYPES = ("float64", "float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How an option is spelled and described outside Python, and which values it may have.

    A field of type bool is a flag that switches to the opposite of its default.
    """

    help: str
    flag: str | None = None
    """On the command line; None: "--" and the field's name."""
    short_flag: str | None = None
    metavar: str | None = None
    value_type: Any = None
    """The type of the value in the settings file and on the command line, where it is not that of
    the field: a `Path` whose content becomes the field, a list of strings to be parsed."""
    in_settings: bool = False
    """Also a key of the settings file. Never for what a directory must not switch on."""
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    above: float | None = None
    second_target_help: str | None = None
    """The help of the option for B of `compare` (`--b-...`), where there is one."""

    def describe_violation(self, value: Any) -> str | None:
        """Return what `value` must be, where it is not; None for a valid value."""
        if self.choices and value not in self.choices:
            return f"one of {', '.join(self.choices)}"
        if isinstance(value, float) and not math.isfinite(value):
            return "a finite number"
        if self.above is not None and not value > self.above:
            return f"above {self.above:g}"
        if self.at_least is not None and not value >= self.at_least:
            return f"{self.at_least:g} or more"
        return None


class OptionGroup:
    """Base of the groups: checks the values against the declarations."""

    heading: ClassVar[str]
    """Of the group's options in the help."""

    def __post_init__(self) -> None:
        for declared in declared_options(type(self)):
            value = getattr(self, declared.name)
            wanted = None if value is None else declared.option.describe_violation(value)
            if wanted is not None:
                raise UsageError(
                    f"invalid option {declared.name}={value!r}", f"it must be {wanted}"
                )


@dataclass(frozen=True, kw_only=True)
class SeedOptions(OptionGroup):
    """The seed, which random weights and random inputs share."""

    heading: ClassVar[str] = "Loading"

    seed: Annotated[
        int,
        Option(
            metavar="N",
            help="Seed of random weights, inputs and samples.",
            at_least=0,
            in_settings=True,
        ),
    ] = 0


@dataclass(frozen=True, kw_only=True)
class LoadingOptions(SeedOptions):
    """How a target is loaded."""

    heading: ClassVar[str] = "Loading"

    device: Annotated[
        str,
        Option(
            metavar="NAME",
            help="Device to run on, such as cuda:0.",
            in_settings=True,
            second_target_help="Device for B.",
        ),
    ] = "cpu"
    dtype: Annotated[
        str | None,
        Option(
            choices=DTYPES,
            help="Cast the weights to this dtype. Default: as stored.",
            in_settings=True,
            second_target_help="Cast the weights of B to this dtype.",
        ),
    ] = None
    revision: Annotated[
        str | None,
        Option(
            metavar="REV",
            help="Branch, tag or commit on the hub.",
            second_target_help="Branch, tag or commit of B on the hub.",
        ),
    ] = None
    random_init: Annotated[
        bool, Option(help="Seeded random weights from the config; load no weights.")
    ] = False
    structure_only: Annotated[
        bool, Option(help="Architecture only, on the meta device; load no weights.")
    ] = False
    weights_only: Annotated[
        bool, Option(help="Check the stored tensors only; run no forward pass.")
    ] = False
    adapter: Annotated[
        str | Path | None,
        Option(
            metavar="DIR",
            value_type=Path,
            help="LoRA directory to merge into the target (needs peft).",
            second_target_help="LoRA directory to merge into B (needs peft).",
        ),
    ] = None
    trust_remote_code: Annotated[
        bool, Option(help="Allow Python code from the checkpoint to run.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class InputOptions(SeedOptions):
    """What is run through the model. Nothing stated: built-in texts, or seeded random inputs."""

    heading: ClassVar[str] = "Inputs"

    texts: Annotated[
        tuple[str, ...] | None,
        Option(
            metavar="FILE",
            value_type=Path,
            help='Texts to run: one per line, or .jsonl with "text" on each line.',
            in_settings=True,
        ),
        Option(
            flag="--text",
            metavar="TEXT",
            value_type=list[str],
            help="Text to run; - reads stdin. May be repeated.",
        ),
    ] = None
    ids: Annotated[
        tuple[tuple[int, ...], ...] | None,
        Option(
            metavar="IDS",
            value_type=list[str],
            help='Token ids to run: "1,2,3". May be repeated.',
        ),
    ] = None
    inputs: Annotated[
        Any | None,
        Option(
            metavar="FILE",
            value_type=Path,
            help="Arguments of forward, from .safetensors or .json.",
        ),
    ] = None
    """What forward takes, or the path of a file that holds it."""
    chat: Annotated[bool, Option(help="Wrap each text in the chat template.")] = False
    special_tokens: Annotated[
        bool, Option(flag="--no-special-tokens", help="Add no special tokens to the texts.")
    ] = True


@dataclass(frozen=True, kw_only=True)
class MeasuringOptions(OptionGroup):
    """What is measured, and how finely."""

    heading: ClassVar[str] = "Measuring"

    measure: Annotated[
        tuple[str, ...],
        Option(
            metavar="KINDS",
            help=f"{', '.join(GROUPS)} or parts of them, by commas; or {NONE}. Default: all.",
            in_settings=True,
        ),
    ] = DEFAULT_MEASURES
    all_tokens: Annotated[
        bool, Option(help="Norm Jacobians, replay and closure at every token, not a sample.")
    ] = False
    clip: Annotated[
        float,
        Option(
            metavar="NORM",
            help="Global gradient norm at which training clips.",
            above=0,
            in_settings=True,
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        # frozen; "stream,norms" and ["stream", "norms"] become ("stream", "norms")
        object.__setattr__(self, "measure", parse_measures(self.measure))


@dataclass(frozen=True, kw_only=True)
class JudgingOptions(OptionGroup):
    """Which rules judge the evidence, and by which thresholds."""

    heading: ClassVar[str] = "Judging"

    select: Annotated[
        tuple[str, ...],
        Option(
            metavar="CODES",
            help="Apply these rules only: ND3,ND401. Default: all.",
            in_settings=True,
        ),
    ] = ()
    ignore: Annotated[
        tuple[str, ...],
        Option(metavar="CODES", help="Do not apply these rules.", in_settings=True),
    ] = ()
    thresholds: Annotated[
        Mapping[str, Mapping[str, float]],
        Option(flag="", help="Rule -> threshold -> value.", in_settings=True),
    ] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Options(JudgingOptions, MeasuringOptions, InputOptions, LoadingOptions):
    """All options of `inspect`, `trace` and `compare`, flat. None is required.

    An instance is valid wherever one of its groups is expected.
    """

    command: str | None = None
    """The command line that the report states."""


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
        bool, Option(help="Exit 4 if a rule lacks its evidence.", in_settings=True)
    ] = False


@dataclass(frozen=True, kw_only=True)
class CheckOptions(GateOptions):
    """When `check` fails, beside what every command can fail on."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredOption:
    """A field of a group with its declaration. One with two spellings (--text, --texts) is two."""

    name: str
    """Of the field."""
    option: Option
    value_type: Any
    """Of the value in the settings file and on the command line, without None."""
    default: Any
    heading: str


@cache
def declared_options(group: type[OptionGroup]) -> tuple[DeclaredOption, ...]:
    """List the options of `group` in the order of its fields."""
    hints = get_type_hints(group, include_extras=True)
    return tuple(
        DeclaredOption(
            name=item.name,
            option=note,
            value_type=note.value_type or _without_none(hint),
            default=item.default_factory() if callable(item.default_factory) else item.default,
            heading=group.heading,
        )
        for item in fields(group)  # type: ignore[arg-type]
        if get_origin(hints[item.name]) is Annotated
        for hint, *notes in [get_args(hints[item.name])]
        for note in notes
    )


def _without_none(hint: Any) -> Any:
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return kinds[0] if type(None) in get_args(hint) and len(kinds) == 1 else hint
