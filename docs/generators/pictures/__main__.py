"""Draw the pictures of the documentation, or tell which of them are out of date.

    python -m docs.generators.pictures            # all; SmolLM2 and pages need chromium
    python -m docs.generators.pictures rules      # one of: rules, terminal, broken, smollm2, ..
    python -m docs.generators.pictures --check    # compare with the content that they hold

A picture is current if what it was made from is what it would be made from now: words exactly,
numbers within 1 %, places within a pixel or two. Pixels are not compared.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from docs.generators.pictures import captions, gallery, pages, terminal
from docs.generators.pictures.png_content import read_content
from docs.generators.pictures.sameness import is_same_picture

ROOT = Path(__file__).parents[3]
PARTS = ("rules", "terminal", *pages.PAGES)


def draw_drawings(part: str) -> dict[Path, str]:
    """Draw what is SVG: path below the root of the repository -> text."""
    return gallery.draw_gallery() if part == "rules" else {terminal.PATH: terminal.draw_terminal()}


def write_part(part: str) -> None:
    """Draw the pictures of one part anew."""
    drawn: Mapping[Path, bytes]
    if part in pages.PAGES:
        drawn = pages.draw_pages(part)
    else:
        drawn = {path: text.encode() for path, text in draw_drawings(part).items()}
    for path, data in drawn.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_bytes(data)
    if part == "rules":
        for path in set((ROOT / captions.FOLDER).glob("*")) - {ROOT / each for each in drawn}:
            path.unlink()


def find_stale_pictures(part: str, root: Path = ROOT) -> list[str]:
    """Describe how the pictures of one part differ from what they would be now."""
    if part in pages.PAGES:
        now = pages.describe_page(part)
        wanted = {pages.path_of(part, scheme): now for scheme in pages.SCHEMES}
    else:
        wanted = draw_drawings(part)
    found = [describe_staleness(root / path, now) for path, now in wanted.items()]
    return [each for each in found if each]


def describe_staleness(path: Path, now: str) -> str:
    """Return how a picture differs from the content that it should have, "" where it does not."""
    if not path.exists():
        return f"{path.name}: missing"
    data = path.read_bytes()
    shown = read_content(data) if path.suffix == ".png" else data.decode()
    return "" if is_same_picture(shown, now) else f"{path.name}: shows something else now"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 1 where `--check` finds a stale picture, 2 for an unknown argument."""
    is_check = "--check" in arguments
    parts = [argument for argument in arguments if argument != "--check"] or list(PARTS)
    if not set(parts) <= set(PARTS):
        print(
            f"usage: python -m docs.generators.pictures [--check] [{'|'.join(PARTS)}]",
            file=sys.stderr,
        )
        return 2
    if not is_check:
        for part in parts:
            write_part(part)
        return 0
    stale = [line for part in parts for line in find_stale_pictures(part)]
    for line in stale:
        print(line)
    if stale:
        print("run: python -m docs.generators.pictures", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
