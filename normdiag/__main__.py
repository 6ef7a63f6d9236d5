"""`python -m normdiag`, and the console script."""

from __future__ import annotations

from normdiag.cli.app import app


def main() -> None:
    """Run the command line; the exit code is the process's."""
    app(prog_name="normdiag")


if __name__ == "__main__":
    main()
