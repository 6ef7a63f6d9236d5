"""The pages that the guide shows: of a healthy model, of a broken one and of a comparison."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from docs.generators.pictures.broken_model import inspect_broken
from docs.generators.pictures.browser import SCHEMES, photograph_page
from docs.generators.pictures.png_content import write_content
from normdiag.pipeline import Options, compare, inspect
from normdiag.render.html.document import Document
from normdiag.render.html.documents import build_compared, build_document
from normdiag.render.html.writer import write_document
from normdiag.render.interface import Options as Shown

ROOT = Path(__file__).parents[3]
FOLDER = Path("docs/pictures")
_SCRIPT = re.compile(r"<script.*?</script>\s*", re.DOTALL)
_POLICY = re.compile(r"<meta http-equiv[^>]*>\s*")
_MACHINE = re.compile(r"<dt>versions</dt><dd>.*?</dd>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PicturedPage:
    """One page, and how much of it the picture shows."""

    build: Callable[[], Document]
    height: int
    """Pixels from the top."""
    until: str
    """Id of the first element that is not, or not wholly, in the picture."""


def build_broken() -> Document:
    """The page of 48 blocks without any norm: the stream and the gradient explode."""
    return build_document(inspect_broken(), Shown())


def build_smollm2() -> Document:
    """The page of SmolLM2 135M Instruct, a healthy model."""
    from tests.real.packages import SMOLLM2, weights

    path = weights(SMOLLM2)
    with chdir(path.parent):
        report = inspect(path.name, options=Options(seed=0))
    return build_document(report, Shown())


def build_comparison() -> Document:
    """The page of a model and a copy whose gains are stored as offsets from 1, read as gains."""
    with chdir(ROOT):
        found = compare("sample_models/gains.py:build", "sample_models/gains.py:build_missing_one")
    return build_compared(found, Shown())


PAGES = {
    "broken": PicturedPage(build=build_broken, height=1310, until="group-the-stream"),
    "smollm2": PicturedPage(build=build_smollm2, height=2500, until="chart-largest_value"),
    "comparison": PicturedPage(build=build_comparison, height=1700, until="chart-stream_ratio"),
}


def draw_pages(name: str) -> dict[Path, bytes]:
    """Photograph one page in every scheme: path below the root of the repository -> PNG."""
    pictured = PAGES[name]
    page = write_document(pictured.build())
    content = select_content(page, pictured.until)
    return {
        path_of(name, scheme): write_content(
            photograph_page(page, pictured.height, scheme), content
        )
        for scheme in SCHEMES
    }


def describe_page(name: str) -> str:
    """Return the content that the pictures of a page would have now."""
    return select_content(write_document(PAGES[name].build()), PAGES[name].until)


def path_of(name: str, scheme: str) -> Path:
    """Where the picture of a page lies, below the root of the repository."""
    return FOLDER / f"{name}-{scheme}.png"


def select_content(page: str, until: str) -> str:
    """Return what the picture shows, as HTML: the style, cards and static charts, no scripts.

    Raises ValueError where the page has nothing with the id `until`.
    """
    page = _MACHINE.sub("", _POLICY.sub("", _SCRIPT.sub("", page)))
    before, mark, _ = page.partition(f'id="{until}"')
    if not mark:
        raise ValueError(f"the page has no element {until!r}")
    return before
