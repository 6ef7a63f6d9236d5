"""The guide's notebook runs from its first cell to its last, and shows what it showed."""

from __future__ import annotations

import json

import pytest

from docs.generators import notebook


def make_notebook(*sources: str) -> dict:
    cells = [
        {"cell_type": "code", "source": [source], "execution_count": None, "outputs": []}
        for source in sources
    ]
    return {"cells": [{"cell_type": "markdown", "source": ["text"]}, *cells]}


def test_cells_share_names_print_and_end_in_a_value(tmp_path) -> None:
    now = notebook.run_notebook(make_notebook("x = 2\nprint(x)", "x + 1", "x"), tmp_path)
    assert notebook.read_outputs(now) == ["2\n", "3", "2"]
    assert [cell.get("execution_count") for cell in now["cells"]] == [None, 1, 2, 3]


def test_a_cell_that_raises_is_no_output(tmp_path) -> None:
    with pytest.raises(ZeroDivisionError):
        notebook.run_notebook(make_notebook("1 / 0"), tmp_path)


def test_another_output_is_stale(tmp_path) -> None:
    shown = notebook.run_notebook(make_notebook("'a 1.000'", "'b'"), tmp_path)
    same = notebook.run_notebook(make_notebook("'a 1.001'", "'b'"), tmp_path)
    other = notebook.run_notebook(make_notebook("'a 1.000'", "'c'"), tmp_path)
    assert notebook.find_stale_cells(shown, same) == []
    assert notebook.find_stale_cells(shown, other) == [2]


def test_the_notebook_of_the_guides() -> None:
    pytest.importorskip("pandas")
    shown = json.loads(notebook.NOTEBOOK.read_text(encoding="utf-8"))
    now = notebook.run_notebook(shown, notebook.NOTEBOOK.parent)
    assert notebook.find_stale_cells(shown, now) == []
