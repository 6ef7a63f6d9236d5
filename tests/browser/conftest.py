"""Pages in Debian's chromium, driven by playwright, with a record of what it complains about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pytest

CHROMIUM = shutil.which("chromium")


def leave_out(why: str) -> NoReturn:
    """Skip the test; with NORMDIAG_BROWSER, where all of them are meant to run, fail it."""
    if os.environ.get("NORMDIAG_BROWSER"):
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every page as a file."""
    from tests.browser.pages import PAGES  # what it imports skips where the extra is missing

    folder = tmp_path_factory.mktemp("pages")
    paths = {name: folder / f"{name}.html" for name in PAGES}
    for name, path in paths.items():
        path.write_text(PAGES[name](), encoding="utf-8")
    return paths


@dataclass
class Opened:
    """A page in the browser, its console and its requests."""

    page: Any
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests."""
    if find_spec("playwright") is None:
        leave_out("playwright is not installed: pip install -e '.[browser]'")
    if CHROMIUM is None:
        leave_out("there is no chromium: apt-get install chromium")
    playwright = import_module("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        # Root has no user namespaces to build a sandbox of; the pages are our own.
        started = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def open_page(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Open a file and wait until its charts are drawn; once for all tests that look alone."""
    contexts: dict[tuple[Any, ...], Any] = {}
    seen: dict[tuple[Any, ...], Opened] = {}

    def open_file(
        path: Path, *, scripts: bool = True, fresh: bool = False, scheme: str = "light"
    ) -> Opened:
        key = (path, scripts, scheme, len(contexts) if fresh else None)
        if key in seen:
            return seen[key]
        context = browser.new_context(
            viewport={"width": 1280, "height": 900},
            java_script_enabled=scripts,
            color_scheme=scheme,
        )
        contexts[key] = context
        opened = Opened(page=context.new_page())
        opened.page.on("console", lambda message: opened.console.append(message.text))
        opened.page.on("pageerror", lambda error: opened.console.append(str(error)))
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.goto(path.as_uri())
        if scripts:
            opened.page.wait_for_selector(
                "html[data-charts=drawn]", state="attached", timeout=120_000
            )
        seen[key] = opened
        return opened

    yield open_file
    for context in contexts.values():
        context.close()
