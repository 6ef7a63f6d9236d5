"""The page about the command line, made from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from typer.main import get_command

from normdiag.cli.app import app

INTRODUCTION = """\
# Command line

`normdiag COMMAND`, or `python -m normdiag COMMAND`. stdout is the report and nothing else;
progress, warnings and a summary line go to stderr. What is not given on the command line is taken
from the [settings](configuration.md), where they say. Exit codes are on [their own
page](../exit-codes.md).
"""


def markdown() -> str:
    """The page: each command with its examples, then each group of options once."""
    described = [_command(name, command) for name, command in commands()]
    groups: dict[str, dict[str, Any]] = {}
    for _, command in commands():
        for heading, options in _groups(command).items():
            groups.setdefault(heading, {}).update({option.name: option for option in options})
    tables = [_table(heading, options.values()) for heading, options in groups.items()]
    return "\n".join([INTRODUCTION, *described, "## Options\n", *tables])


def commands() -> Iterator[tuple[str, Any]]:
    """Name and typer command, in the order of the help."""
    yield from vars(get_command(app))["commands"].items()


def _command(name: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    groups = _groups(command)
    usage = [name, *map(_argument, arguments), *(["[OPTIONS]"] if groups else [])]
    text, _, examples = inspect.cleandoc(command.help or "").partition("\b\n")
    lines = [f"## `normdiag {' '.join(usage)}`", "", text.strip(), "", "```console"]
    lines += [f"$ {example}" for example in examples.splitlines()]
    lines += ["```", ""]
    lines += [f"`{each.metavar}`: {each.help}" for each in arguments]
    lines += [""] if arguments else []
    if groups:
        links = ", ".join(f"[{heading}](#{heading.lower()})" for heading in groups)
        lines += [f"Options: {links}.", ""]
    return "\n".join(lines)


def _argument(argument: Any) -> str:
    name = f"{argument.metavar}..." if argument.nargs == -1 else str(argument.metavar)
    return name if argument.required else f"[{name}]"


def _groups(command: Any) -> dict[str, list[Any]]:
    """Heading -> the options under it."""
    groups: dict[str, list[Any]] = {}
    for each in command.params:
        if each.param_type_name == "option":
            groups.setdefault(each.rich_help_panel, []).append(each)
    return groups


def _table(heading: str, options: Iterable[Any]) -> str:
    return "\n".join((f"### {heading}", "", "| option | |", "|---|---|", *map(_row, options), ""))


def _row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len))
    value = f" `{option.metavar}`" if option.metavar else ""
    default = f" Default: {option.default}." if isinstance(option.default, str) else ""
    cells = (f"{names}{value}", f"{option.help}{default}")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
