"""Checks of how a package is built, each a function of its folder that lists what is wrong."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

HEAVY = {"torch", "transformers"}
MAX_LINES = 300
GRAB_BAGS = {"utils", "util", "helpers", "helper", "common", "misc", "tools", "shared", "types"}


class Import(NamedTuple):
    """One import statement: the file it stands in, what it names, and where."""

    path: Path
    module: str
    line: int
    in_function: bool


class Layer(NamedTuple):
    """One row of the table of allowed imports."""

    imports: frozenset[str]
    in_functions: frozenset[str]
    torch: bool


def read_table(page: str) -> dict[str, Layer]:
    """The table under "Allowed imports" of the design page."""
    section = page.partition("## Allowed imports")[2].partition("\n## ")[0]
    table = {}
    for row in re.findall(r"^\| (`\w+`) \|([^|]*)\|([^|]*)\| (yes|no) \|$", section, re.MULTILINE):
        part, imports, in_functions = (frozenset(re.findall(r"`(\w+)`", cell)) for cell in row[:3])
        table[next(iter(part))] = Layer(imports, imports | in_functions, row[3] == "yes")
    return table


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def statements(node: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """The import statements below `node` that run, and whether a function must be called first."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, in_function
        elif is_type_checking(child):
            continue
        else:
            inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from statements(child, in_function or inner)


def imports_of(package: Path) -> Iterator[Import]:
    """Every import of every file, as absolute module names."""
    for path in sorted(package.rglob("*.py")):
        for node, in_function in statements(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                assert isinstance(node, ast.ImportFrom)
                assert node.level == 0 and node.module, f"{path}:{node.lineno}: relative import"
                names = submodules(package, node.module, [alias.name for alias in node.names])
            for name in names:
                yield Import(path, name, node.lineno, in_function)


def submodules(package: Path, module: str, names: list[str]) -> list[str]:
    """`from a.b import c` names the module a.b.c where c is a file, else a.b."""
    folder = package.parent.joinpath(*module.split("."))
    return [
        f"{module}.{name}"
        if (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
        else module
        for name in names
    ]


def module_of(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(package: Path, module: str) -> str | None:
    """The row of the table that a module belongs to; None for other packages."""
    top, *rest = module.split(".")
    if top != package.name:
        return None
    return rest[0] if rest else top


def wrong_directions(package: Path, table: dict[str, Layer]) -> list[str]:
    wrong = []
    for found in imports_of(package):
        here = part_of(package, module_of(package, found.path))
        there = part_of(package, found.module)
        assert here is not None
        if there is None or there == here:
            continue
        layer = table[here]
        if there not in (layer.in_functions if found.in_function else layer.imports):
            wrong.append(f"{found.path.name}:{found.line}: {here} imports {there}")
    return wrong


def heavy_imports(package: Path, table: dict[str, Layer]) -> list[str]:
    wrong = []
    for found in imports_of(package):
        here = part_of(package, module_of(package, found.path))
        assert here is not None
        if found.module.split(".")[0] in HEAVY and not table[here].torch:
            wrong.append(f"{found.path.name}:{found.line}: {here} imports {found.module}")
    return wrong


def cycle(package: Path) -> list[str]:
    """One cycle of modules, imports inside functions counted; [] where there is none.

    The package's own `__init__` is left out: it is the public face and resolves its names when
    they are asked for.
    """
    graph: dict[str, set[str]] = {}
    for found in imports_of(package):
        here = module_of(package, found.path)
        if package.name not in (here, found.module) and part_of(package, found.module):
            graph.setdefault(here, set()).add(found.module)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def long_files(package: Path) -> list[str]:
    lengths = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in package.rglob("*.py")}
    return [f"{path.name}: {n} lines" for path, n in sorted(lengths.items()) if n > MAX_LINES]


def grab_bags(package: Path) -> list[str]:
    return sorted(path.name for path in package.rglob("*") if path.stem in GRAB_BAGS)


def rule_classes(path: Path) -> list[str]:
    """Classes of a file that are rules: those with a code."""
    return [
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
        and any(
            isinstance(target, ast.Name) and target.id == "code" and value is not None
            for statement in node.body
            for target, value in assignments(statement)
        )
    ]


def assignments(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr | None]]:
    if isinstance(statement, ast.Assign):
        return [(target, statement.value) for target in statement.targets]
    if isinstance(statement, ast.AnnAssign):
        return [(statement.target, statement.value)]
    return []


def not_one_rule(families: Path) -> list[str]:
    """Files in the families' folders that hold another number of rules than one."""
    files = [p for p in sorted(families.glob("*/*.py")) if p.name != "__init__.py"]
    return [
        f"{p.parent.name}/{p.name}: {rule_classes(p)}" for p in files if len(rule_classes(p)) != 1
    ]
