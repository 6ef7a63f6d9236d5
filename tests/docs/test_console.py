"""The examples of the README are run again; what is allowed to differ is little."""

from __future__ import annotations

import pytest

from docs.generators import console_examples as console


def test_finds_the_commands_of_a_block() -> None:
    assert console.parse_commands("$ a\nx\n\ny\n$ b --c\n") == {"a": "x\n\ny\n", "b --c": ""}


def test_renews_the_output_of_a_block_only() -> None:
    page = "text\n```console\n$ echo new\nold\n```\n```python\n$ echo new\nold\n```\n"
    expected = "text\n```console\n$ echo new\nnew\n```\n```python\n$ echo new\nold\n```\n"
    assert console.renew_outputs(page) == expected


def test_leaves_a_block_without_output_alone() -> None:
    page = "```console\n$ exit 1\n```\n"
    assert console.renew_outputs(page) == page


def test_stops_at_a_command_that_fails() -> None:
    with pytest.raises(SystemExit, match="exit code 3"):
        console.renew_outputs("```console\n$ exit 3\nold\n```\n")


@pytest.mark.parametrize(
    ("now", "equal"),
    [
        ("torch 2.13.0+cpu norm 8.013  ▇▇▇ x 3e-04", True),
        ("torch 2.13.0 norm 8.013   ▇▇ x 3.01e-04", True),
        ("torch 2.13.0+cu130 norm 8.05  ▇▇▇ x 3e-04", True),
        ("torch 2.13.0+cpu norm 8.2  ▇▇▇ x 3e-04", False),
        ("torch 2.13.0+cpu norm 8.013  ▇▇▇ x 3e-03", False),
        ("torch 2.13.0+cpu norm 8.013  ▇▇▇ y 3e-04", False),
        ("torch 2.13.0+cpu norm 8.013  ▇▇▇ x 3e-04 more", False),
        ("torch 2.13.0+cpu norm 8.013  x 3e-04", False),
    ],
)
def test_compares_words_exactly_and_numbers_nearly(now: str, equal: bool) -> None:
    assert console.is_same_output("torch 2.13.0+cpu norm 8.013  ▇▇▇ x 3e-04", now) is equal


def test_which_rounding_error_is_the_largest_may_differ() -> None:
    shown = "closes to 8.5e-8 (worst at layer 1)"
    assert console.is_same_output(shown, "closes to 1.2e-7 (worst\nat layer 5)")
    assert not console.is_same_output(shown, "closes to 1.2e-3 (worst at layer 5)")


@pytest.mark.slow
def test_the_readme_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.renew_page(console.README, write=False) == 0, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ci.md", "compare.md"])
def test_a_guide_is_true(capsys: pytest.CaptureFixture[str], name: str) -> None:
    (guide,) = (path for path in console.GUIDES if path.name == name)
    assert console.renew_page(guide, write=False) == 0, capsys.readouterr().out


def test_an_unknown_argument() -> None:
    assert console.main(["--chekc"]) == 2
