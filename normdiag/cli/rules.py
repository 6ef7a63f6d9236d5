"""`normdiag rules [CODE]`."""

from __future__ import annotations

from typing import Annotated

import typer

Code = Annotated[
    str | None,
    typer.Argument(
        metavar="CODE",
        help="A rule (ND301, or its name) for its page; a family (ND3) for its list.",
        show_default=False,
    ),
]


def rules(code: Code = None) -> None:
    """List the rules, or print the page of one.

    The page says what the rule does, why it matters, how it is measured, its thresholds, how to
    fix what it finds, and when it is wrong.

    \b
    normdiag rules
    normdiag rules ND3
    normdiag rules epsilon-dominates
    """
    from rich.text import Text

    from normdiag.cli.stdout import stdout
    from normdiag.render.page import Column, table
    from normdiag.render.plain import Plain
    from normdiag.rules import page, registry

    console = stdout()
    chosen = registry.RULES if code is None else registry.matching(code)
    if code is not None and len(chosen) == 1:
        console.out(page.page(chosen[0]), end="", highlight=False)
        return
    columns = (
        Column(title="code", right=False),
        Column(title="name", right=False),
        Column(title="what it finds", right=False),
    )
    rows = ([Text(cell) for cell in row] for row in page.rows(chosen))
    console.print(Plain(table(columns, rows)))
