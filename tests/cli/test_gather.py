"""Groups of options become flat options, and flat values become groups again."""

from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Annotated, get_args

import pytest
import typer
from typer.testing import CliRunner

from normdiag.cli.gather import flat


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large.

    More about it.
    """

    width: Annotated[int, typer.Option("--width", "-w", help="Across.")] = 3
    names: Annotated[list[str] | None, typer.Option()] = None


@dataclass(frozen=True, kw_only=True)
class Colour:
    """Which colour."""

    red: Annotated[bool, typer.Option("--red")] = False


@dataclass(frozen=True, kw_only=True)
class Looks:
    """Size and colour together."""

    size: Size = Size()
    colour: Colour = Colour()


def paint(what: Annotated[str, typer.Argument()], looks: Looks) -> None:
    """Paint it."""
    typer.echo(f"{what} {looks}")


def test_groups_are_replaced_by_what_is_in_them():
    parameters = signature(flat(paint)).parameters
    assert list(parameters) == ["what", "width", "names", "red"]
    assert [parameter.default for parameter in parameters.values()] == [
        Parameter.empty,
        3,
        None,
        False,
    ]


def test_the_docstring_of_a_group_heads_its_options():
    parameters = signature(flat(paint)).parameters
    headings = {
        name: get_args(parameter.annotation)[1].rich_help_panel
        for name, parameter in parameters.items()
    }
    assert headings == {
        "what": None,
        "width": "How large",
        "names": "How large",
        "red": "Which colour",
    }


def test_the_options_of_the_group_itself_are_left_as_they_were():
    flat(paint)
    assert get_args(Size.__annotations__["width"])[1].rich_help_panel != "How large"


def test_typer_hands_the_values_back_in_their_groups():
    app = typer.Typer()
    app.command()(flat(paint))
    result = CliRunner().invoke(app, ["door", "-w", "5", "--names", "a", "--names", "b", "--red"])
    looks = Looks(size=Size(width=5, names=["a", "b"]), colour=Colour(red=True))
    assert result.stdout == f"door {looks}\n"


def test_what_is_not_given_is_as_the_group_says():
    app = typer.Typer()
    app.command()(flat(paint))
    assert CliRunner().invoke(app, ["door"]).stdout == f"door {Looks()}\n"


def test_one_name_in_two_groups_is_refused():
    def twice(size: Size, again: Size) -> None:
        """Ask for the same twice."""

    with pytest.raises(ValueError, match="duplicate parameter name"):
        flat(twice)
