"""The examples of the README are run again; what is allowed to differ is little."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def console() -> ModuleType:
    spec = importlib.util.spec_from_file_location("console", DOCS / "console.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_finds_the_commands_of_a_block(console: ModuleType) -> None:
    assert console.commands("$ a\nx\n\ny\n$ b --c\n") == {"a": "x\n\ny\n", "b --c": ""}


def test_renews_the_output_of_a_block_only(console: ModuleType) -> None:
    page = "text\n```console\n$ echo new\nold\n```\n```python\n$ echo new\nold\n```\n"
    expected = "text\n```console\n$ echo new\nnew\n```\n```python\n$ echo new\nold\n```\n"
    assert console.renew(page) == expected


def test_leaves_a_block_without_output_alone(console: ModuleType) -> None:
    page = "```console\n$ exit 1\n```\n"
    assert console.renew(page) == page


def test_stops_at_a_command_that_fails(console: ModuleType) -> None:
    with pytest.raises(SystemExit, match="exit code 3"):
        console.renew("```console\n$ exit 3\nold\n```\n")


@pytest.mark.parametrize(
    ("now", "equal"),
    [
        ("norm 8.013  ▇▇▇ x 3e-07", True),
        ("norm 8.013    ▇▇ x 3.01e-07", True),
        ("norm 8.05  ▇▇▇ x 3e-07", True),
        ("norm 8.2  ▇▇▇ x 3e-07", False),
        ("norm 8.013  ▇▇▇ x 3e-08", False),
        ("norm 8.013  ▇▇▇ y 3e-07", False),
        ("norm 8.013  ▇▇▇ x 3e-07 more", False),
        ("norm 8.013  x 3e-07", False),
    ],
)
def test_compares_words_exactly_and_numbers_nearly(
    console: ModuleType, now: str, equal: bool
) -> None:
    assert console.same("norm 8.013  ▇▇▇ x 3e-07", now) is equal


def test_the_readme_is_true(console: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert console.main(["--check"]) == 0, capsys.readouterr().out


def test_an_unknown_argument(console: ModuleType) -> None:
    assert console.main(["--chekc"]) == 2
