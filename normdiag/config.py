"""Settings of a project: `normdiag.toml`, or `[tool.normdiag]` of its `pyproject.toml`.

    select = ["ND3", "geometric-growth"]
    ignore = { ND301 = "epsilon is set on purpose" }    # or a list of codes
    fail_on = "warning"
    require_complete = true
    max = { "measurements.growth.total" = 50 }
    margin = 0.1
    measure = ["stream", "norms"]
    clip = 0.5
    texts = "probes.txt"                                # relative to the settings file
    dtype = "bfloat16"

    [thresholds.epsilon-dominates]
    eps_share = 0.05

The keys are the options that are declared `in_settings`, with the same limits. An unknown key and a
value of the wrong type are errors: a gate with a misspelled key would never fail.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from normdiag.errors import UsageError
from normdiag.gate_options import CheckOptions
from normdiag.option_group import DeclaredOption, declared_options
from normdiag.options import InputOptions, JudgingOptions, LoadingOptions, MeasuringOptions

T = TypeVar("T")

KEYS: Mapping[str, DeclaredOption] = {
    declared.name: declared
    for group in (JudgingOptions, CheckOptions, MeasuringOptions, InputOptions, LoadingOptions)
    for declared in declared_options(group)
    if declared.option.in_settings
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The content of a settings file."""

    path: Path | None = None
    """None: there is no settings file."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Option -> its value, for the keys in the file. `texts` is the path of the file of texts."""
    ignore_reasons: Mapping[str, str] = field(default_factory=dict)
    """Code, name or prefix of an ignored rule -> the reason, where one is given."""


def find_settings(directory: Path) -> Settings:
    """Read the settings of the nearest directory, from `directory` upward, that has any.

    `normdiag.toml` is preferred to a `pyproject.toml` in the same directory, which is skipped
    without `[tool.normdiag]`. Raises UsageError, see `read_settings`.
    """
    for folder in (directory, *directory.parents):
        for name in ("normdiag.toml", "pyproject.toml"):
            path = folder / name
            if path.is_file() and (settings := read_settings(path)) is not None:
                return settings
    return Settings()


def read_settings(path: Path) -> Settings | None:
    """Read the settings in `path`; None for a `pyproject.toml` without any.

    Raises UsageError with the file, the key and the value: unreadable file, broken TOML, unknown
    key, wrong type, a value out of range.
    """
    table: Any = _read_toml(path)
    if path.name == "pyproject.toml":
        tool = table.get("tool", {})
        if not isinstance(tool, dict) or "normdiag" not in tool:
            return None
        table = tool["normdiag"]
        if not isinstance(table, dict):
            raise UsageError(
                f"{path}: tool.normdiag must be a table, not {table!r}",
                "write it as [tool.normdiag]",
            )
    values = {key: _read_value(path, key, value) for key, value in table.items()}
    reasons = table.get("ignore")
    return Settings(
        path=path,
        values=values,
        ignore_reasons={code: text for code, text in reasons.items() if text}
        if isinstance(reasons, dict)
        else {},
    )


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", "make it readable, or remove it"
        ) from error
    except ValueError as error:  # broken TOML, text that is not UTF-8, an endless integer
        raise UsageError(f"{path} is not valid TOML: {error}", "correct it there") from error


def _read_value(path: Path, key: str, value: object) -> Any:
    declared = KEYS.get(key)
    if declared is None:
        close = get_close_matches(key, KEYS, n=1)
        suggestion = f"did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"{path}: unknown key {key!r}", f"{suggestion}known keys: {', '.join(sorted(KEYS))}"
        )
    try:
        parsed = _parse_value(declared, value)
    except _InvalidValue as error:
        raise UsageError(
            f"{path}: invalid setting: {key}{error.subkey} = {error.value!r}",
            f"it must be {error.valid}",
        ) from error
    except UsageError as error:
        raise UsageError(
            f"{path}: invalid setting: {key} = {value!r}: {error.what}", error.hint
        ) from error
    return path.parent / parsed if isinstance(parsed, Path) else parsed


class _InvalidValue(Exception):
    """A value that a key cannot have; `subkey` is the rest of the key, below the top level."""

    def __init__(self, value: object, valid: str, subkey: str = "") -> None:
        super().__init__(valid)
        self.value, self.valid, self.subkey = value, valid, subkey


def _parse_value(declared: DeclaredOption, value: object) -> Any:
    option = declared.option
    if not option.choices:
        reader = _parse_ignore if declared.name == "ignore" else _PARSERS[declared.value_type]
        value = reader(value)
    valid = option.describe_valid_value(value)
    if valid is not None:
        raise _InvalidValue(value, valid)
    return value if option.parse is None else option.parse(value)


def _exact_type(kind: type[T], valid: str) -> Callable[[object], T]:
    def parse(value: object) -> T:
        # Exactly: bool is an int to isinstance, and `seed = true` is a mistake.
        if type(value) is not kind:
            raise _InvalidValue(value, valid)
        return value

    return parse


_parse_text = _exact_type(str, "a string")


def _parse_path(value: object) -> Path:
    return Path(_parse_text(value))


def _parse_names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _InvalidValue(value, "a list of strings")
    return tuple(value)


def _parse_ignore(value: object) -> tuple[str, ...]:
    """Codes from a list, or from a table of code -> reason."""
    if not isinstance(value, dict):
        return _parse_names(value)
    for code, reason in value.items():
        if not isinstance(reason, str):
            raise _InvalidValue(reason, "a string, the reason", f".{code}")
    return tuple(value)


def _parse_thresholds(value: object) -> dict[str, dict[str, float]]:
    if not isinstance(value, dict):
        raise _InvalidValue(value, "a table: [thresholds.RULE]")
    return {rule: _parse_rule_thresholds(rule, limits) for rule, limits in value.items()}


def _parse_rule_thresholds(rule: str, value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        raise _InvalidValue(value, "a table of threshold = number", f".{rule}")
    return {name: _parse_number(number, f".{rule}.{name}") for name, number in value.items()}


def _parse_bounds(value: object) -> dict[str, float]:
    """Path -> number. TOML makes nested tables of the dots of a key that is not in quotes."""
    if not isinstance(value, dict):
        raise _InvalidValue(value, 'a table of "path" = number')
    return dict(_flatten_table(value, ""))


def _flatten_table(table: dict[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in table.items():
        path = f"{prefix}.{key}".lstrip(".")
        if isinstance(value, dict):
            yield from _flatten_table(value, path)
        else:
            yield path, _parse_number(value, f".{path}")


def _parse_number(value: object, subkey: str = "") -> float:
    valid = "a finite number"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _InvalidValue(value, valid, subkey)
    try:
        number = float(value)
    except OverflowError as error:  # an integer beyond every float
        raise _InvalidValue(value, valid, subkey) from error
    if not math.isfinite(number):
        raise _InvalidValue(value, valid, subkey)
    return number


_PARSERS: Mapping[Any, Callable[[object], Any]] = {
    str: _parse_text,
    bool: _exact_type(bool, "true or false"),
    int: _exact_type(int, "a whole number"),
    float: _parse_number,
    Path: _parse_path,
    tuple[str, ...]: _parse_names,
    Mapping[str, float]: _parse_bounds,
    Mapping[str, Mapping[str, float]]: _parse_thresholds,
}
"""Type of a declared option -> its parser."""
