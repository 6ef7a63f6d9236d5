"""`python -m normdiag`, and the console script."""

from __future__ import annotations

import sys

INTERRUPTED = 128 + 2
"""What a shell reports for a program that Ctrl-C ends."""


def main() -> None:
    """Run the command line; the exit code is the process's."""
    try:
        from normdiag.cli.app import app

        app(prog_name="normdiag")
    except KeyboardInterrupt:
        # While still importing: from then on the command line itself answers.
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
