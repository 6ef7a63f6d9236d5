"""Pictures of pages are taken by chromium without a driver."""

from __future__ import annotations

import struct

import pytest

from docs.generators.pictures.browser import SCHEMES, WIDTH, photograph_page
from docs.generators.pictures.png_content import list_chunks, read_content, write_content
from tests.browser.conftest import CHROMIUM, leave_out

pytestmark = pytest.mark.browser

PAGE = """<!doctype html><style>
body { margin: 0; background: #ffffff; }
@media (prefers-color-scheme: dark) { body { background: #000000; } }
</style><body>"""


def test_a_picture_in_each_scheme() -> None:
    if CHROMIUM is None:
        leave_out("there is no chromium: apt-get install chromium")
    taken = {scheme: photograph_page(PAGE, 120, scheme) for scheme in SCHEMES}
    assert taken["light"] != taken["dark"]
    for png in taken.values():
        written = write_content(png, PAGE)
        assert struct.unpack_from(">II", dict(list_chunks(written))[b"IHDR"]) == (WIDTH, 120)
        assert read_content(written) == PAGE
