"""The group of all commands, which remembers what was typed."""

from __future__ import annotations

import shlex
from typing import Any

import typer
from typer.core import TyperGroup

_ARGUMENTS = "normdiag.arguments"


class Commands(TyperGroup):
    """A typer group that keeps the arguments as they came, for the report's `command`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep `args`, then parse them as typer does."""
        ctx.meta[_ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


def typed(context: typer.Context) -> str:
    """The command line, quoted so that a shell would read the same."""
    return shlex.join(("normdiag", *context.meta[_ARGUMENTS]))
