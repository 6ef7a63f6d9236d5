"""`python -m normdiag`, and the console script."""

from __future__ import annotations

import sys

INTERRUPTED = 128 + 2
"""The exit code that a shell reports for a program that Ctrl-C ends."""


def main() -> None:
    """Run the command line, and exit with its exit code."""
    try:
        from normdiag.cli.lossy_stderr import tolerate_lost_messages

        tolerate_lost_messages()
        from normdiag.cli.app import app

        app(prog_name="normdiag")
    except KeyboardInterrupt:
        # During the imports; later the command line itself handles it.
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
