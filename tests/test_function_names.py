"""Functions of the package are named by verb phrases or nouns of two words and more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.function_names import forbidden_names, iterate_function_names, measure_names

PACKAGE = Path(__file__).parent.parent / "normdiag"


def test_names_say_what_functions_do() -> None:
    figures = measure_names(name for _, name in iterate_function_names(PACKAGE))
    assert figures.functions > 1000
    assert figures.one_word <= 0.40
    assert figures.participles <= 0.01
    assert figures.words >= 1.8
    assert len(figures.repeated) <= 50, figures.repeated


def test_no_name_is_a_forbidden_word() -> None:
    assert forbidden_names(PACKAGE) == []


class TestTheTestsCanFail:
    """The figures and the list of words, on names that are wrong in just one way."""

    def test_figures(self) -> None:
        figures = measure_names(["told", "load_model", "load_model", "load_model", "check", "seed"])
        assert figures.one_word == pytest.approx(2 / 6)  # told, seed
        assert figures.participles == pytest.approx(1 / 6)  # told
        assert figures.words == pytest.approx(9 / 6)
        assert figures.repeated == ("load_model",)

    @pytest.mark.parametrize("name", ["_seen", "of", "rows", "take_batch", "worst"])
    def test_forbidden(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "a.py").write_text(f"class A:\n    def {name}(self): ...\n", encoding="utf-8")
        assert forbidden_names(tmp_path) == [f"a.py:2: {name.strip('_')}"]

    @pytest.mark.parametrize("name", ["takes_part", "worst_block", "__repr__", "write_rows"])
    def test_allowed(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "a.py").write_text(f"def {name}(): ...\n", encoding="utf-8")
        assert forbidden_names(tmp_path) == []
