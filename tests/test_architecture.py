"""The package is built as docs/design.md says: imports point down, one half is without torch."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from tests.architecture import (
    MAX_LINES,
    Layer,
    cycle,
    grab_bags,
    heavy_imports,
    long_files,
    module_of,
    not_one_rule,
    part_of,
    read_table,
    wrong_directions,
)

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "normdiag"


@pytest.fixture(scope="module")
def table() -> dict[str, Layer]:
    return read_table((ROOT / "docs" / "design.md").read_text(encoding="utf-8"))


def test_every_part_is_in_the_table(table: dict[str, Layer]) -> None:
    parts = {part_of(PACKAGE, module_of(PACKAGE, path)) for path in PACKAGE.rglob("*.py")}
    assert set(table) == parts


def test_imports_point_down(table: dict[str, Layer]) -> None:
    assert wrong_directions(PACKAGE, table) == []


def test_one_half_is_without_torch(table: dict[str, Layer]) -> None:
    assert heavy_imports(PACKAGE, table) == []
    torch_free = {"cli", "rules", "render", "report", "structure", "evidence", "config"}
    assert not any(table[part].torch for part in torch_free | {"findings", "graph", "errors"})


def test_no_import_cycles() -> None:
    assert cycle(PACKAGE) == []


def test_files_are_short() -> None:
    assert long_files(PACKAGE) == []


def test_no_grab_bags() -> None:
    assert grab_bags(PACKAGE) == []


def test_one_rule_per_file() -> None:
    assert not_one_rule(PACKAGE / "rules") == []


class TestTheTestsCanFail:
    """Each check above on a small package that is wrong in just that way."""

    TABLE: ClassVar = {
        "low": Layer(frozenset(), frozenset(), torch=False),
        "high": Layer(frozenset({"low"}), frozenset({"low", "top"}), torch=False),
        "top": Layer(frozenset({"low", "high"}), frozenset({"low", "high"}), torch=True),
        "sample": Layer(frozenset(), frozenset(), torch=False),
    }

    @pytest.fixture
    def package(self, tmp_path: Path) -> Path:
        """Three parts as TABLE has them, with nothing wrong."""
        package = tmp_path / "sample"
        files = {
            "__init__.py": "",
            "low/__init__.py": "",
            "low/a.py": "import os\n",
            "high/__init__.py": "",
            "high/b.py": "from sample.low.a import os\ndef f():\n    import sample.top\n",
            "top.py": "import torch\nfrom typing import TYPE_CHECKING\nimport sample.low\n",
        }
        for name, text in files.items():
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_text(text, encoding="utf-8")
        return package

    def test_a_right_package_passes(self, package: Path) -> None:
        assert wrong_directions(package, self.TABLE) == []
        assert heavy_imports(package, self.TABLE) == []
        assert cycle(package) == []
        assert long_files(package) == []
        assert grab_bags(package) == []

    @pytest.mark.parametrize(
        "statement",
        [
            "import sample.high.b",
            "from sample.high import b",
            "from sample import high",
            "from sample.top import x",
        ],
    )
    def test_an_import_that_points_up(self, package: Path, statement: str) -> None:
        (package / "low/a.py").write_text(statement, encoding="utf-8")
        assert len(wrong_directions(package, self.TABLE)) == 1

    def test_an_import_allowed_in_functions_only(self, package: Path) -> None:
        (package / "high/b.py").write_text("import sample.top", encoding="utf-8")
        assert wrong_directions(package, self.TABLE) == ["b.py:1: high imports top"]

    @pytest.mark.parametrize("module", ["torch", "torch.nn", "transformers"])
    def test_torch_in_the_wrong_half(self, package: Path, module: str) -> None:
        (package / "low/a.py").write_text(f"def f():\n    import {module}", encoding="utf-8")
        assert heavy_imports(package, self.TABLE) == [f"a.py:2: low imports {module}"]

    def test_an_import_for_types_only_is_none(self, package: Path) -> None:
        source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n"
        (package / "low/a.py").write_text(source, encoding="utf-8")
        assert heavy_imports(package, self.TABLE) == []

    def test_a_cycle_through_a_function(self, package: Path) -> None:
        (package / "low/a.py").write_text("from sample.low import c", encoding="utf-8")
        (package / "low/c.py").write_text("def f():\n    import sample.low.a", encoding="utf-8")
        assert set(cycle(package)) == {"sample.low.a", "sample.low.c"}

    def test_a_long_file(self, package: Path) -> None:
        (package / "top.py").write_text("\n" * (MAX_LINES + 1), encoding="utf-8")
        assert long_files(package) == [f"top.py: {MAX_LINES + 1} lines"]

    @pytest.mark.parametrize("name", ["utils.py", "low/helpers.py", "common/__init__.py"])
    def test_a_grab_bag(self, package: Path, name: str) -> None:
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).touch()
        assert len(grab_bags(package)) == 1

    @pytest.mark.parametrize(
        ("source", "rules"),
        [
            ("", []),
            ("class A:\n    code = 'ND1'\nclass B:\n    code: str = 'ND2'", ["A", "B"]),
            ("class A:\n    code: str", []),
        ],
    )
    def test_not_one_rule(self, package: Path, source: str, rules: list[str]) -> None:
        (package / "low/a.py").write_text("class A:\n    code = 'ND1'", encoding="utf-8")
        (package / "high/b.py").write_text(source, encoding="utf-8")
        assert not_one_rule(package) == [f"high/b.py: {rules}"]

    def test_a_part_that_the_table_lacks(self) -> None:
        table = read_table(
            "## Allowed imports\n| `a` | `b`, `c` | `d` | yes |\n## Next\n| `z` | | | no |\n"
        )
        expected = Layer(frozenset("bc"), frozenset("bcd"), torch=True)
        assert table == {"a": expected}
