"""Run the cells of the guide's notebook and put what they show below them.

    python -m docs.generators.notebook            # rewrite
    python -m docs.generators.notebook --check    # compare; numbers may differ by 1 %

The cells run one after the other in one namespace, in the notebook's folder, as Jupyter runs them;
a kernel is not needed. Of a cell's last expression the `repr` and the HTML are kept.
"""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

from docs.generators.console_examples import is_same_output

NOTEBOOK = Path(__file__).parents[1] / "guides" / "notebook.ipynb"


def run_notebook(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with the outputs of its cells as they are now. Raises what a cell raises."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    with chdir(folder):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                outputs = run_cell("".join(cell["source"]), namespace, count)
                cell = {**cell, "execution_count": count, "outputs": outputs}
            cells.append(cell)
    return {**notebook, "cells": cells}


def run_cell(source: str, namespace: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """What one cell prints, and what its last expression is."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {count}", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = split_lines(printed.getvalue())
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        outputs.append(
            {
                "data": describe_value(value),
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def describe_value(value: object) -> dict[str, list[str]]:
    """The forms in which a notebook holds a value, by media type."""
    data = {"text/plain": split_lines(repr(value))}
    draw_html = getattr(value, "_repr_html_", None)
    return data if draw_html is None else {"text/html": split_lines(draw_html()), **data}


def split_lines(text: str) -> list[str]:
    """Lines with their ends, as the format wants them."""
    return text.splitlines(keepends=True)


def read_outputs(notebook: dict[str, Any]) -> list[str]:
    """The text of every code cell's outputs."""
    return [
        "".join(
            line
            for output in cell["outputs"]
            for line in output.get("text") or output["data"]["text/plain"]
        )
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def find_stale_cells(shown: dict[str, Any], now: dict[str, Any]) -> list[int]:
    """Numbers of the code cells, from 1, that show something else now."""
    pairs = zip(read_outputs(shown), read_outputs(now), strict=True)
    return [place for place, (old, new) in enumerate(pairs, 1) if not is_same_output(old, new)]


def main(arguments: list[str]) -> int:
    """The exit code: 1 where `--check` finds stale cells, 2 for a wrong argument."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m docs.generators.notebook [--check]", file=sys.stderr)
        return 2
    shown = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    now = run_notebook(shown, NOTEBOOK.parent)
    if not arguments:
        text = json.dumps(now, indent=1, ensure_ascii=False)
        NOTEBOOK.write_text(text + "\n", encoding="utf-8")
        return 0
    stale = find_stale_cells(shown, now)
    if stale:
        print(f"cells {stale} show something else now; run: python -m docs.generators.notebook")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
