"""Help in sections: plain text, so that it costs no more than typer itself."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class Sectioned(TyperCommand):
    """A command that lists its options under the headings of their groups.

    typer draws such headings with rich only, which takes longer to import than all else.
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
