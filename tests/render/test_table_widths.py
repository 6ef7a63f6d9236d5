"""How a table is fitted into a line: extra columns, folded words and names, bars."""

from __future__ import annotations

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from normdiag.render.axis import Axis
from normdiag.render.elements import Bar, Cell, Column, Name, Number, Page, Row, Sentence, Table
from normdiag.render.text.drawer import draw_page

NAME = "model.layers.10.post_attention_layernorm"


def draw(element: Table | Sentence, width: int) -> list[str]:
    buffer = io.StringIO()
    page = Page(title="", outcome="", elements=(element,))
    draw_page(page, Console(file=buffer, width=width))
    return buffer.getvalue().splitlines()


def make_table(*columns: tuple[Column, Cell]) -> Table:
    row = Row(cells=tuple(cell for _, cell in columns))
    return Table(columns=tuple(column for column, _ in columns), rows=(row,))


def make_norms(extra: float | None = 1.0) -> Table:
    return make_table(
        (Column(title="norm"), Name(text=NAME)),
        (Column(title="role"), Name(text="branch-input")),
        (Column(title="variance", align="right"), Number(value=0.5)),
        (
            Column(title="smallest", align="right", meaning="over tokens", is_extra=True),
            Number(value=extra),
        ),
    )


@pytest.mark.parametrize(
    ("width", "is_shown"),
    [(75, False), (76, True)],  # 2 + 40 + 2 + 12 + 2 + 8 + 2 + 8
)
def test_an_extra_column_is_there_where_everything_fits(width: int, is_shown: bool) -> None:
    text = "\n".join(draw(make_norms(), width))
    assert NAME in text
    assert ("smallest" in text) == is_shown == ("over tokens" in text)


def test_an_extra_column_without_values_is_left_out() -> None:
    assert "smallest" not in "\n".join(draw(make_norms(None), 200))


def test_names_are_broken_between_their_parts() -> None:
    lines = draw(make_norms(), 45)
    assert max(map(cell_len, lines)) <= 45
    cells = [line.split() for line in lines[2:]]
    assert cells[0] == ["model.layers.10.", "branch-", "0.500"]
    assert cells[1] == ["post_attention_layernorm", "input"]


def test_words_share_the_room() -> None:
    words = "one two three four five six seven"
    table = make_table(
        (Column(title="a"), words), (Column(title="b"), words), (Column(title="c"), "short")
    )
    lines = draw(table, 49)  # 2 + 20 + 2 + 20 + 2 + 5
    assert len(lines) == 4 and max(map(cell_len, lines)) <= 49
    assert re.split("  +", lines[2])[1:] == ["one two three four", "one two three four", "short"]


def test_a_bar_is_no_longer_than_can_be_read() -> None:
    axis = Axis.fit_values([1.0, 2.0])
    table = make_table(
        (Column(title="site"), Name(text="a")), (Column(title=""), Bar(value=2.0, axis=axis))
    )
    assert max(map(cell_len, draw(table, 200)[1:])) < 60


def test_prose_is_no_wider_on_a_wide_terminal_and_breaks_paths_between_parts() -> None:
    assert max(map(cell_len, draw(Sentence(text="word " * 80), 200))) <= 120
    path = "/a_directory/another-directory/a_third_directory/model"
    lines = [line.strip() for line in draw(Sentence(text=f"loaded {path} now"), 40)]
    assert lines == ["loaded /a_directory/another-directory/", "a_third_directory/model now"]
