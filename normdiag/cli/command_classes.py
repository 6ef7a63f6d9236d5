"""Typer's command and group, with plain-text help in sections and the arguments for the report."""

from __future__ import annotations

import shlex
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_ARGUMENTS = "normdiag.arguments"


class CommandGroup(TyperGroup):
    """A group that keeps its arguments, for the `command` of the report."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep `args`, then parse them as typer does."""
        ctx.meta[_ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


class SectionedCommand(TyperCommand):
    """A command whose help lists options under the headings of their groups.

    Typer itself needs rich for such headings, which takes longer to import than all else.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each heading once, in the order of the signature."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            heading = getattr(parameter, "rich_help_panel", None)
            default = "Arguments" if is_argument else "Other"
            sections.setdefault(heading or default, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def command_line(context: typer.Context) -> str:
    """Return the command line, quoted so that a shell reads the same arguments."""
    return shlex.join(("normdiag", *context.meta[_ARGUMENTS]))
