"""Typer options generated from declared options: a command takes groups, the user flat options.

A parameter of a command is expanded if its type is an `OptionGroup` (the command gets an instance)
or an `Annotated[OptionValues, ExpandedOptions(...)]` (it gets the values on the command line).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from normdiag.errors import UsageError
from normdiag.option_group import DeclaredOption, OptionGroup, declared_options

OptionValues = Mapping[str, Any]
"""Parameter name of an option -> its value on the command line. Absent: not typed."""

COMMAND_LINE_TYPES: Mapping[Any, Any] = {
    tuple[str, ...]: list[str],
    Mapping[str, float]: list[str],
}
"""Type of a declared option -> what typer parses, where that is not the same."""


@dataclass(frozen=True, slots=True)
class ExpandedOptions:
    """The options that a parameter of a command stands for."""

    options: tuple[DeclaredOption, ...]


def expand_groups(*groups: type[OptionGroup]) -> ExpandedOptions:
    """List the command-line options of `groups`; one that two groups share is in the last."""
    by_name: dict[str, DeclaredOption] = {}
    for declared in (each for group in groups for each in declared_options(group) if each.flag):
        by_name.pop(parameter_name(declared), None)
        by_name[parameter_name(declared)] = declared
    return ExpandedOptions(tuple(by_name.values()))


def parameter_name(declared: DeclaredOption) -> str:
    """Return the key of the option in `OptionValues`: "no_special_tokens", "text"."""
    return declared.flag.removeprefix("--").replace("-", "_")


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return `command` with its option groups replaced by the options in them."""
    hints = get_type_hints(command, include_extras=True)
    parameters = signature(command).parameters
    expanded = {name: _expand_hint(hint) for name, hint in hints.items() if name in parameters}

    @wraps(command)
    def run_command(**values: Any) -> None:
        arguments = {}
        for name, options in expanded.items():
            if options is None:
                arguments[name] = values[name]
                continue
            typed = _select_typed(options, values)
            hint = hints[name]
            is_group = get_origin(hint) is not Annotated
            arguments[name] = hint(**parse_values(options, typed)) if is_group else typed
        command(**arguments)

    flat: list[Parameter] = []
    for name, parameter in parameters.items():
        options = expanded[name]
        if options is None:  # typer passes everything by name
            flat.append(parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY))
        else:
            flat.extend(map(_typer_parameter, options))
    run_command.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    run_command.__annotations__ = {each.name: each.annotation for each in flat}
    return run_command


def parse_values(options: Iterable[DeclaredOption], typed: OptionValues) -> dict[str, Any]:
    """Map field names to parsed values, for those of `options` that stand in `typed`.

    A comma-separated option without any name (`--select ""`) counts as not typed. Raises UsageError
    for a value that cannot be parsed.
    """
    fields: dict[str, Any] = {}
    for declared in options:
        name = parameter_name(declared)
        if name in typed and (value := _parse_value(declared, typed[name])) is not None:
            fields[declared.name] = value
    return fields


def _expand_hint(hint: Any) -> tuple[DeclaredOption, ...] | None:
    if isinstance(hint, type) and issubclass(hint, OptionGroup):
        return expand_groups(hint).options
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((each.options for each in notes if isinstance(each, ExpandedOptions)), None)


def _select_typed(options: Iterable[DeclaredOption], values: OptionValues) -> dict[str, Any]:
    """Select the values of `options` that were typed, and refuse invalid ones."""
    typed = {}
    for declared in options:
        value = values[parameter_name(declared)]
        if value is None or value is False or value == []:
            continue
        valid = declared.option.describe_valid_value(value)
        if valid is not None:
            raise UsageError(f"invalid option: {declared.flag} {value}", f"it must be {valid}")
        typed[parameter_name(declared)] = value
    return typed


def _parse_value(declared: DeclaredOption, value: Any) -> Any:
    if declared.value_type is bool:
        return not declared.default
    if declared.option.parse is not None:
        try:
            return declared.option.parse(value)
        except UsageError as error:
            what = f"invalid option: {declared.flag}: {error.what}"
            raise UsageError(what, error.hint) from error
    if declared.value_type == tuple[str, ...]:
        return _split_names(value) or None
    if declared.value_type == Mapping[str, float]:
        return dict(_parse_limit(declared.flag, text) for text in value)
    return value


def _split_names(values: Iterable[str]) -> tuple[str, ...]:
    """Split the values of a comma-separated option that may be repeated."""
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


def _parse_limit(flag: str, text: str) -> tuple[str, float]:
    path, _, number = text.rpartition("=")
    example = f"write {flag} measurements.growth.total=50"
    try:
        limit = float(number)
    except ValueError as error:
        raise UsageError(
            f"invalid option: {flag} {text!r} does not end in =NUMBER", example
        ) from error
    if not path:
        raise UsageError(f"invalid option: {flag} {text!r} has no path", example)
    if not math.isfinite(limit):
        raise UsageError(f"invalid option: {flag} {text!r}: {number} is not finite", example)
    return path, limit


def _typer_parameter(declared: DeclaredOption) -> Parameter:
    option = declared.option
    is_flag = declared.value_type is bool
    kind = str if option.choices else declared.value_type
    kind = COMMAND_LINE_TYPES.get(kind, kind)
    names = [name for name in (declared.flag, option.short_flag) if name]
    return Parameter(
        parameter_name(declared),
        Parameter.KEYWORD_ONLY,
        default=False if is_flag else None,
        annotation=Annotated[
            kind if is_flag else kind | None,
            typer.Option(
                *names,
                metavar=None if is_flag else option.metavar or "|".join(option.choices),
                help=declared.help_with_default,
                rich_help_panel=declared.heading,
                show_default=False,
            ),
        ],
    )
