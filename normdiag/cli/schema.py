"""`normdiag schema`."""

from __future__ import annotations


def schema() -> None:
    """Print the JSON Schema of the report.

    \b
    normdiag schema > report.schema.json
    """
    from normdiag.cli.stdout import stdout
    from normdiag.report import schema as committed

    stdout().out(committed.text(), end="", highlight=False)
