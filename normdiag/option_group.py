"""How options are declared: groups of fields with help, limits and spelling.

A group is a frozen dataclass whose fields are `Annotated[type, Option(...)]`. The command line and
the settings file are generated from the declarations (`declared_options`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Real
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from normdiag.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How an option is spelled and described outside Python, and which values are valid.

    A field of type bool is a flag that switches to the opposite of its default.
    """

    help: str
    flag: str | None = None
    """On the command line; None: "--" and the field's name; "": the settings file only."""
    short_flag: str | None = None
    metavar: str | None = None
    """The value in the help; None: the choices, or nothing for a flag."""
    value_type: Any = None
    """Type of the value in the settings file and on the command line; None: that of the field."""
    parse: Callable[[Any], Any] | None = None
    """From that value to the field's. Raises UsageError."""
    in_settings: bool = False
    """Also a key of the settings file. Never for what no directory may switch on."""
    choices: tuple[str, ...] = ()
    at_least: int | None = None
    at_most: int | None = None
    above: int | None = None
    second_target_help: str | None = None
    """Help of `--b-...`, the same option for B of `compare`; None: there is none."""

    def describe_valid_value(self, value: Any) -> str | None:
        """Return what a valid value is ("above 0") if `value` is invalid, else None."""
        limits = (self.above, self.at_least, self.at_most)
        if any(limit is not None for limit in limits) and not isinstance(value, Real):
            return "a number"
        if self.choices:
            return None if value in self.choices else f"one of {', '.join(self.choices)}"
        if isinstance(value, float) and not math.isfinite(value):
            return "a finite number"
        if self.above is not None and not value > self.above:
            return f"above {self.above}"
        if self.at_least is not None and not value >= self.at_least:
            return f"{self.at_least} or more"
        if self.at_most is not None and not value <= self.at_most:
            return f"at most {self.at_most}"
        return None


class OptionGroup:
    """Base of the groups, which checks values against the declarations."""

    heading: ClassVar[str]
    """Of the group's options in the help."""

    def __post_init__(self) -> None:
        for declared in declared_options(type(self)):
            value = getattr(self, declared.name)
            if value is None:
                valid = None if declared.default is None else "left out, for its default"
            else:
                valid = declared.option.describe_valid_value(value)
            if valid is not None:
                what = f"invalid option: {declared.name} = {value!r}"
                raise UsageError(what, f"it must be {valid}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredOption:
    """A field of a group and its declaration. A field with two spellings is declared twice."""

    name: str
    option: Option
    value_type: Any
    """Of the value in the settings file and on the command line, without None."""
    default: Any
    heading: str

    @property
    def flag(self) -> str:
        """Return the option's name on the command line; "" where it is none there."""
        flag = self.option.flag
        return f"--{self.name.replace('_', '-')}" if flag is None else flag

    @property
    def help_with_default(self) -> str:
        """Return the help, with the default where the help does not state it and it is a value."""
        text, default = self.option.help, self.default
        is_value = isinstance(default, str | int | float) and not isinstance(default, bool)
        if not is_value or "Default:" in text:
            return text
        return f"{text} Default: {f'{default:g}' if isinstance(default, float) else default}."


def declared_options(group: type[OptionGroup]) -> tuple[DeclaredOption, ...]:
    """List the options of `group` in the order of its fields."""
    hints = get_type_hints(group, include_extras=True)
    return tuple(
        DeclaredOption(
            name=item.name,
            option=option,
            value_type=option.value_type or _remove_none(hint),
            default=item.default_factory() if callable(item.default_factory) else item.default,
            heading=group.heading,
        )
        for item in fields(group)  # type: ignore[arg-type]
        if get_origin(hints[item.name]) is Annotated
        for hint, *options in [get_args(hints[item.name])]
        for option in options
    )


def _remove_none(hint: Any) -> Any:
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 and type(None) in get_args(hint) else hint
