"""Groups of options become flat options, and the values return in their groups."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Annotated, ClassVar, get_args

import pytest
import typer
from typer.testing import CliRunner

from normdiag.cli.option_groups import OptionValues, expand_groups, expand_option_groups
from normdiag.errors import UsageError
from normdiag.option_group import Option, OptionGroup


@dataclass(frozen=True, kw_only=True)
class Size(OptionGroup):
    """How large."""

    heading: ClassVar[str] = "Size"

    width: Annotated[int, Option(short_flag="-w", metavar="N", help="Across.", at_least=1)] = 3
    names: Annotated[tuple[str, ...], Option(metavar="NAMES", help="Names.")] = ()
    limits: Annotated[Mapping[str, float], Option(metavar="PATH=N", help="Limits.")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, kw_only=True)
class Colour(OptionGroup):
    """Which colour."""

    heading: ClassVar[str] = "Colour"

    red: Annotated[bool, Option(help="Red.")] = False
    tint: Annotated[bool, Option(flag="--no-tint", help="No tint.")] = True
    shade: Annotated[str, Option(choices=("light", "dark"), help="Shade.")] = "dark"


def paint(
    what: Annotated[str, typer.Argument()],
    size: Size,
    colour: Annotated[OptionValues, expand_groups(Colour)],
) -> None:
    """Paint it."""
    typer.echo(f"{what} {size} {dict(colour)}")


def run(*words):
    app = typer.Typer(rich_markup_mode=None)
    app.command()(expand_option_groups(paint))
    return CliRunner().invoke(app, ["door", *words])


def test_groups_are_replaced_by_the_options_in_them():
    parameters = signature(expand_option_groups(paint)).parameters
    assert [(name, parameter.default) for name, parameter in parameters.items()] == [
        ("what", Parameter.empty),
        ("width", None),
        ("names", None),
        ("limits", None),
        ("red", False),
        ("no_tint", False),
        ("shade", None),
    ]


def test_heading_help_and_default_are_those_of_the_declaration():
    parameters = signature(expand_option_groups(paint)).parameters
    width, shade = (get_args(parameters[name].annotation)[1] for name in ("width", "shade"))
    assert (width.rich_help_panel, width.help) == ("Size", "Across. Default: 3.")
    assert (shade.rich_help_panel, shade.metavar) == ("Colour", "light|dark")


def test_values_return_in_their_groups():
    result = run("-w", "5", "--names", "a, b", "--names", "c", "--limits", "x.y=2", "--no-tint")
    typed = {"no_tint": True}
    size = Size(width=5, names=("a", "b", "c"), limits={"x.y": 2.0})
    assert result.stdout == f"door {size} {typed}\n"


def test_an_option_that_is_not_typed_has_no_value():
    assert run().stdout == f"door {Size()} {{}}\n"
    assert run("--names", "").stdout == f"door {Size()} {{}}\n"


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        (("--width", "0"), "--width 0", "1 or more"),
        (("--shade", "grey"), "--shade grey", "one of light, dark"),
        (("--limits", "x"), "--limits 'x' does not end in =NUMBER", "write --limits"),
        (("--limits", "=1"), "--limits '=1' has no path", "write --limits"),
        (("--limits", "x=nan"), "nan is not finite", "write --limits"),
    ],
)
def test_an_invalid_value_is_refused_with_its_option(words, what, hint):
    error = run(*words).exception
    assert isinstance(error, UsageError)
    assert error.what.startswith("invalid option: ") and what in error.what
    assert hint in error.hint


def test_an_option_that_two_groups_share_comes_once():
    assert expand_groups(Size, Size) == expand_groups(Size)
