"""Structure is decided by data flow: with every class and module renamed, the same is found."""

from __future__ import annotations

import ast
import dataclasses
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import normdiag.structure
from normdiag.evidence.architecture import Architecture
from tests.structure.families.family import Family, families
from tests.structure.structures import architecture

FAMILIES: dict[str, Family] = families("a_to_l") | families("m_to_z")
SEVERAL = """
    albert bart bert bloom cohere convnext dbrx falcon_mamba gemma2 gpt_neox gpt2 jamba llama
    minimax olmo2 parakeet_encoder pvt_v2 siglip swinv2 t5 xlm
"""
SOURCES = sorted(Path(normdiag.structure.__path__[0]).glob("*.py"))
READS_TEXT = {
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "lower",
    "upper",
    "casefold",
}


class Names:
    """One random word per name."""

    def __init__(self, seed: int) -> None:
        self._draws = random.Random(seed)
        self._words: dict[str, str] = {}

    def word(self, name: str) -> str:
        if name not in self._words:
            self._words[name] = "".join(self._draws.choices(string.ascii_lowercase, k=9))
        return self._words[name]

    def path(self, path: str) -> str:
        return ".".join(map(self.word, path.split("."))) if path else ""


def rename_modules(model: nn.Module, seed: int) -> nn.Module:
    """The same model: each module of a class of another name, and at another path."""
    names = Names(seed)
    paths = [(names.path(path), module) for path, module in model.named_modules()]
    for _, module in paths:
        cls = type(module)
        module.__class__ = type(names.word(cls.__name__), (cls,), {"__module__": cls.__module__})

    def named_modules(*args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Module]]:
        return iter(paths)

    model.named_modules = named_modules  # type: ignore[assignment]
    return model


def number_labels(found: Architecture) -> Any:
    """The architecture with a number, by first appearance, for each id and each module."""
    numbers: dict[tuple[str, str], int] = {}

    def number(space: str, label: str) -> int:
        return numbers.setdefault((space, label), len(numbers))

    def walk(value: Any, key: str, kind: str) -> Any:
        if isinstance(value, dict):
            return {k: walk(v, k, kind) for k, v in value.items() if k != "class_"}
        if isinstance(value, list | tuple):
            return [walk(v, key, kind) for v in value]
        if not isinstance(value, str):
            return value
        if key == "id" or key == "stack":
            return number(kind if key == "id" else "stacks", value)
        if key == "module":
            return number("modules", value)
        if key == "name":  # of a tensor that multiplies a branch
            return number("tensors", value)
        return number("norms", value) if key.endswith(("_norm", "_norms")) else value

    parts = dataclasses.asdict(found).items()
    return {kind: walk(value, kind, kind) for kind, value in parts}


@pytest.mark.parametrize("name", SEVERAL.split())
def test_names_decide_nothing(name: str) -> None:
    model, inputs = FAMILIES[name].build()
    before = architecture(model, inputs)
    after = architecture(rename_modules(model, seed=len(name)), inputs)
    assert number_labels(after) == number_labels(before)
    old = {s.id for s in before.stacks} | {n.class_ for n in before.norms}
    assert not old & ({s.id for s in after.stacks} | {n.class_ for n in after.norms})


def test_the_comparison_sees_a_change() -> None:
    one = architecture(*FAMILIES["llama"].build())
    fewer = dataclasses.replace(one, norms=one.norms[1:])
    assert number_labels(one) != number_labels(fewer)
    assert number_labels(one) != number_labels(architecture(*FAMILIES["olmo2"].build()))


def text_reads(tree: ast.AST) -> list[str]:
    """Where code looks at the text of a class's, a module's or a parameter's name."""
    labels = {
        id(k.value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for k in call.keywords
        if k.arg == "class_"
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = {a.name for a in node.names} | {getattr(node, "module", None)}
            found += [f"imports {m}" for m in modules & {"re", "fnmatch", "difflib"}]
        if isinstance(node, ast.Attribute) and node.attr in {"label", "class_", "__name__"}:
            found += [] if id(node) in labels else [f"line {node.lineno} reads .{node.attr}"]
        if isinstance(node, ast.Attribute) and node.attr in READS_TEXT:
            is_operation = isinstance(node.value, ast.Attribute) and node.value.attr == "op"
            found += [] if is_operation else [f"line {node.lineno} calls .{node.attr}"]
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = [s for s in sides if isinstance(s, ast.Constant) and isinstance(s.value, str)]
            names = [
                s for s in sides if isinstance(s, ast.Attribute) and s.attr in {"path", "name"}
            ]
            found += [f"line {node.lineno} compares a name with text"] if texts and names else []
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_no_code_of_structure_reads_a_name(path: Path) -> None:
    assert not text_reads(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "code",
    [
        "import re",
        "x = frame.label == 'LlamaRMSNorm'",
        "frame.path.endswith('norm')",
        "frame.path == 'model.norm'",
        "'norm' in node.name",
        "type(module).__name__",
    ],
)
def test_such_code_would_be_seen(code: str) -> None:
    assert text_reads(ast.parse(code))
