"""Options in groups: a command takes a few dataclasses, the command line many flat options.

A group is a frozen dataclass whose fields are `Annotated[..., typer.Option(..)]`; the first line
of its docstring is the heading of its options in the help. A group may hold other groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from typer.models import OptionInfo


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with every group among its parameters replaced by the options in it."""
    hints = get_type_hints(command, include_extras=True)

    @wraps(command)
    def flattened(**given: Any) -> None:
        command(**{name: _take(name, hints[name], given) for name in parameters})

    parameters = signature(command).parameters
    options = [
        option
        for name, parameter in parameters.items()
        for option in _spread(hints[name], parameter)
    ]
    flattened.__signature__ = Signature(options)  # type: ignore[attr-defined]
    flattened.__annotations__ = {option.name: option.annotation for option in options}
    return flattened


def _take(name: str, hint: Any, given: dict[str, Any]) -> Any:
    """The value of the parameter `name`, built from the flat options where it is a group."""
    if not is_dataclass(hint):
        return given[name]
    hints = get_type_hints(hint, include_extras=True)
    values = {item.name: _take(item.name, hints[item.name], given) for item in fields(hint)}
    return hint(**values)  # type: ignore[operator]


def _spread(hint: Any, parameter: Parameter) -> Iterator[Parameter]:
    if not is_dataclass(hint):
        # typer passes everything by name.
        yield parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY)
        return
    hints = get_type_hints(hint, include_extras=True)
    heading = (hint.__doc__ or "").partition("\n")[0].rstrip(".")
    for item in fields(hint):
        own = Parameter(
            item.name,
            Parameter.KEYWORD_ONLY,
            default=item.default,
            annotation=_under(heading, hints[item.name]),
        )
        yield from _spread(hints[item.name], own) if is_dataclass(hints[item.name]) else (own,)


def _under(heading: str, hint: Any) -> Any:
    """`hint` with its option placed under `heading` of the help."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *notes = get_args(hint)
    placed = [copy(note) for note in notes]
    for note in placed:
        if isinstance(note, OptionInfo):
            note.rich_help_panel = heading
    return Annotated[(kind, *placed)]
