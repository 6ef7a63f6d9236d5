"""Write the pages and the JSON schemas that are generated from code; `--check` only compares.

python -m docs.generators.reference_pages
python -m docs.generators.reference_pages --check
"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.generators.pictures.sections import add_pictures
from normdiag.cli import reference
from normdiag.report import schema
from normdiag.rules import page
from normdiag.rules.registry import RULES

ROOT = Path(__file__).parents[2]
SCHEMAS = Path("normdiag/report/schemas")
OWNED = ("docs/rules",)
"""Folders of generated files only: any other file there is stale."""


def generate_files() -> dict[Path, str]:
    """Generate every file: path below the root of the repository -> text."""
    rules = {
        f"docs/rules/{rule.name}.md": add_pictures(page.format_rule_page(rule), rule)
        for rule in RULES
    }
    files = {
        **rules,
        "docs/rules/index.md": page.format_rule_index(RULES),
        "docs/reference/cli.md": reference.format_command_line_page(),
        "docs/reference/configuration.md": reference.format_settings_page(),
    }
    schemas = {
        schema.REPORT_SCHEMA: schema.generate_report_schema(),
        schema.SERIES_SCHEMA: schema.generate_series_schema(),
        schema.COMPARISON_SCHEMA: schema.generate_comparison_schema(),
    }
    paths = {Path(path): text for path, text in files.items()}
    return paths | {SCHEMAS / path.name: text for path, text in schemas.items()}


def find_stale_files(root: Path) -> list[str]:
    """Describe how the files below `root` differ from the generated ones, one line per file."""
    files = generate_files()
    existing = {path.relative_to(root) for name in OWNED for path in (root / name).glob("*")}
    differences = [f"{path}: no rule has this page" for path in existing - files.keys()]
    for path, text in files.items():
        if not (root / path).exists():
            differences.append(f"{path}: missing")
        elif (root / path).read_text(encoding="utf-8") != text:
            differences.append(f"{path}: out of date")
    return sorted(differences)


def write_files(root: Path) -> None:
    """Bring the files below `root` up to date."""
    files = generate_files()
    for name in OWNED:
        for path in (root / name).glob("*"):
            if path.relative_to(root) not in files:
                path.unlink()
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Return the exit code: 1 where `--check` finds a difference, 2 for an unknown argument."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m docs.generators.reference_pages [--check]", file=sys.stderr)
        return 2
    if not arguments:
        write_files(ROOT)
        return 0
    differences = find_stale_files(ROOT)
    for line in differences:
        print(line)
    if differences:
        print("run: python -m docs.generators.reference_pages", file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
