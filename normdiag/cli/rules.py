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
    from rich.text import Text

    from normdiag.cli.report_console import open_report_console
    from normdiag.render.page import Column, table
    from normdiag.render.plain import Plain
    from normdiag.rules import page, registry

    console = open_report_console()
    chosen = registry.RULES if code is None else registry.match_rules(code)
    if code is not None and len(chosen) == 1:
        console.out(page.format_rule_page(chosen[0]), end="", highlight=False)
        return
    columns = (
        Column(title="code", right=False),
        Column(title="name", right=False),
        Column(title="what it finds", right=False),
    )
    rows = ([Text(cell) for cell in row] for row in page.rule_rows(chosen))
    console.print(Plain(table(columns, rows)))
