"""The options of a diagnosis, each declared once: loading, inputs, measuring and judging.

Python callers pass the fields of `Options` to `normdiag.inspect`, `trace` and `compare`. The
command line and the settings file are generated from the same declarations, so a new option is one
field here and the code that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from normdiag.errors import UsageError
from normdiag.measures import DEFAULT_MEASURES, GROUPS, NONE, parse_measures
from normdiag.option_group import Option, OptionGroup
from normdiag.option_values import (
    DEVICE_MAPS,
    DTYPES,
    parse_dtype_name,
    parse_ids,
    parse_memory_limits,
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
            at_most=2**63 - 1,
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
    device_map: Annotated[
        str | None,
        Option(
            choices=DEVICE_MAPS,
            help="Spread the weights over devices, or load them as they run (needs accelerate).",
            second_target_help="The same for B.",
        ),
    ] = None
    max_memory: Annotated[
        Mapping[int | str, Any] | None,
        Option(
            metavar="LIMITS",
            value_type=str,
            parse=parse_memory_limits,
            help="What the device map may use: 0=20GiB,cpu=30GiB.",
        ),
    ] = None
    offload_folder: Annotated[
        str | Path | None,
        Option(
            metavar="DIR",
            value_type=Path,
            help="Where weights are written that cannot be read from the checkpoint as they are. "
            "Default: a temporary one.",
        ),
    ] = None
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

    def __post_init__(self) -> None:
        if self.dtype is not None:  # Python callers may use short names
            object.__setattr__(self, "dtype", parse_dtype_name(self.dtype))
        if self.max_memory is not None:
            object.__setattr__(self, "max_memory", parse_memory_limits(self.max_memory))
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class InputOptions(SeedOptions):
    """What is run through the model. Nothing stated: built-in texts, or seeded random inputs."""

    heading: ClassVar[str] = "Inputs"

    texts: Annotated[
        tuple[str, ...] | None,
        Option(
            flag="--text",
            metavar="TEXT",
            value_type=list[str],
            help="Text to run; - reads stdin. May be repeated.",
        ),
        Option(
            metavar="FILE",
            value_type=Path,
            help='Texts to run: one per line, or .jsonl with "text" on each line.',
            in_settings=True,
        ),
    ] = None
    ids: Annotated[
        tuple[tuple[int, ...], ...] | None,
        Option(
            metavar="IDS",
            value_type=list[str],
            parse=parse_ids,
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

    def __post_init__(self) -> None:
        _set_tuples(self, "texts")
        texts: tuple[object, ...] = self.texts or ()
        other = next((each for each in texts if not isinstance(each, str)), None)
        if other is not None:
            raise UsageError(
                f"invalid option: texts holds {other!r}, which is no text",
                "give strings; numbers of tokens are ids=[(1, 2)]",
            )
        given = [name for name in ("inputs", "ids", "texts") if getattr(self, name) is not None]
        if len(given) > 1:
            raise UsageError(
                f"{' and '.join(given)} exclude each other: each gives the inputs",
                "give one of them",
            )
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class MeasuringOptions(OptionGroup):
    """What is measured, and how finely."""

    heading: ClassVar[str] = "Measuring"

    measure: Annotated[
        tuple[str, ...],
        Option(
            metavar="KINDS",
            parse=parse_measures,
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
        # "stream,norms" is valid in Python too. The class is frozen, hence __setattr__.
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
        Option(
            flag="",
            help="Thresholds of a rule: a table of threshold = number.",
            in_settings=True,
        ),
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _set_tuples(self, "select", "ignore")
        super().__post_init__()


_TOKENIZER_METHODS = ("__call__", "convert_ids_to_tokens", "decode")


def _require_tokenizer(tokenizer: Any) -> None:
    missing = [name for name in _TOKENIZER_METHODS if not hasattr(tokenizer, name)]
    if missing:
        raise UsageError(
            f"invalid option: tokenizer is a {type(tokenizer).__name__}, which has no "
            f"{', '.join(missing)}",
            "pass one of transformers: AutoTokenizer.from_pretrained(..), or "
            "PreTrainedTokenizerFast(tokenizer_object=..) for one of the library tokenizers",
        )


def _set_tuples(group: OptionGroup, *names: str) -> None:
    """Replace a string or a list, which Python callers may pass, by a tuple. Groups are frozen."""
    for name in names:
        value = getattr(group, name)
        if value is not None:
            as_tuple = (value,) if isinstance(value, str) else tuple(value)
            object.__setattr__(group, name, as_tuple)


@dataclass(frozen=True, kw_only=True)
class Options(JudgingOptions, MeasuringOptions, InputOptions, LoadingOptions):
    """All options of `inspect`, `trace` and `compare`, flat. None is required.

    An instance is valid wherever one of its groups is expected.
    """

    command: str | None = None
    """The command line that the report states."""
    tokenizer: Any | None = None
    """A tokenizer of transformers, for callers with a module, which has none of its own. None: that
    of the checkpoint."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokenizer is not None:
            _require_tokenizer(self.tokenizer)
