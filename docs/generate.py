"""Write the pages that are made from code. Run from anywhere; `--check` only compares.

python docs/generate.py
python docs/generate.py --check
"""

from __future__ import annotations

import sys
from pathlib import Path

from normdiag.cli import reference
from normdiag.rules import page
from normdiag.rules.registry import RULES

DOCS = Path(__file__).parent
OWNED = ("rules",)
"""Folders that hold nothing but generated pages: what is not generated does not belong there."""


def pages() -> dict[Path, str]:
    """Every generated page: its path below `docs/` -> its text."""
    rules = {Path("rules", f"{rule.name}.md"): page.format_rule_page(rule) for rule in RULES}
    return {
        **rules,
        Path("rules", "index.md"): page.format_rule_index(RULES),
        Path("reference", "cli.md"): reference.format_command_line_page(),
        Path("reference", "configuration.md"): reference.format_settings_page(),
    }


def stale(folder: Path) -> list[str]:
    """How the files below `folder` differ from what would be written, one line per file."""
    made = pages()
    there = {path.relative_to(folder) for name in OWNED for path in (folder / name).glob("*")}
    differences = [f"{path}: no rule has this page" for path in there - made.keys()]
    for path, text in made.items():
        if not (folder / path).exists():
            differences.append(f"{path}: missing")
        elif (folder / path).read_text(encoding="utf-8") != text:
            differences.append(f"{path}: out of date")
    return sorted(differences)


def write(folder: Path) -> None:
    """Bring the files below `folder` up to date."""
    made = pages()
    for name in OWNED:
        for path in (folder / name).glob("*"):
            if path.relative_to(folder) not in made:
                path.unlink()
    for path, text in made.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """The exit code: 1 where `--check` finds a difference, 2 for an unknown argument."""
    if arguments not in ([], ["--check"]):
        print("usage: python docs/generate.py [--check]", file=sys.stderr)
        return 2
    if not arguments:
        write(DOCS)
        return 0
    differences = stale(DOCS)
    for line in differences:
        print(line)
    if differences:
        print("run: python docs/generate.py", file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
