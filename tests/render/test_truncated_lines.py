"""The first few of many, and how many more there are."""

from __future__ import annotations

import pytest

from normdiag.render.truncated_lines import join_truncated, truncate_lines


@pytest.mark.parametrize(
    ("many", "most", "lines", "line"),
    [
        (0, 2, [], ""),
        (2, 2, ["0", "1"], "0, 1"),
        (3, 2, ["0", "1", "and 1 more"], "0, 1 and 1 more"),
        (3, None, ["0", "1", "2"], "0, 1, 2"),
        (2001, 1, ["0", "and 2,000 more"], "0 and 2,000 more"),
    ],
)
def test_nothing_is_left_out_unsaid(
    many: int, most: int | None, lines: list[str], line: str
) -> None:
    names = [str(number) for number in range(many)]
    assert truncate_lines(names, most) == lines
    assert join_truncated(names, most) == line
