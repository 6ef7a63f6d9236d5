"""`normdiag rules [CODE]`."""

from __future__ import annotations

from typing import Annotated

import typer

Code = Annotated[
    str | None,
    typer.Argument(
        metavar="CODE",
        help="A rule (ND301, or its name) prints its page; a family (ND3) its list.",
        show_default=False,
    ),
]


def rules(code: Code = None) -> None:
    """List the rules, or print the page of one.

    The page describes what the rule finds, why it matters, how it is measured, its thresholds, how
    to fix a finding, and known false positives.

    \b
    normdiag rules
    normdiag rules ND3
    normdiag rules epsilon-dominates
    """
    from rich.console import Group

    from normdiag.cli.report_console import open_report_console
    from normdiag.render.elements import Column, Row, Table
    from normdiag.render.text.plain_output import PlainOutput
    from normdiag.render.text.tables import draw_table
    from normdiag.rules import page, registry

    console = open_report_console()
    chosen = registry.RULES if code is None else registry.match_rules(code)
    if code is not None and len(chosen) == 1:
        console.out(page.format_rule_page(chosen[0]), end="", highlight=False)
        return
    columns = tuple(Column(title=title) for title in ("code", "name", "what it finds"))
    rows = tuple(Row(cells=tuple(row)) for row in page.rule_rows(chosen))
    table = draw_table(Table(columns=columns, rows=rows), console.width)
    console.print(PlainOutput(Group(*table)))
