"""Structure is decided by data flow: with every class and module renamed, the same is found."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest

import normdiag.structure
from tests.structure.families.family import Family, families
from tests.structure.renaming import number_labels, rename_modules
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
