"""The line of the model's own code, not of torch's and not of normdiag's."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import torch
from torch import nn

from normdiag.capture.source_line import source_line


def here() -> int:
    return inspect.currentframe().f_back.f_lineno


def test_it_is_this_file_and_this_line() -> None:
    assert (source_line(), here()) == (f"{Path(__file__).name}:{here()}", here())


def test_frames_of_torch_are_passed_over() -> None:
    lines = []

    class Watch(nn.Module):
        def forward(self, x):
            lines.append((source_line(), here()))
            return x

    nn.Sequential(Watch())(torch.zeros(1))
    ((line, number),) = lines
    assert line == f"{Path(__file__).name}:{number}"


def test_paths_of_installed_packages_start_at_the_package(tmp_path, monkeypatch) -> None:
    package = tmp_path / "site-packages" / "somewhere"
    package.mkdir(parents=True)
    (package / "inner_module.py").write_text("def call(f):\n    return f()\n")
    monkeypatch.syspath_prepend(str(package))
    import inner_module

    try:
        assert inner_module.call(source_line) == str(Path("somewhere", "inner_module.py")) + ":2"
    finally:
        sys.modules.pop("inner_module")


def test_code_without_a_file_is_passed_over() -> None:
    space = {"source_line": source_line}
    line = eval("source_line()", space)
    assert line is not None
    assert line.startswith(Path(__file__).name)
