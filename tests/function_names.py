"""Measures how the functions of a package are named, for `test_function_names.py`."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

GRAMMAR = frozenset({"update", "merge", "compute", "check", "finding", "section", "build"})
"""One word each, since every accumulator, rule, section and sample model has them."""

_IRREGULAR_PARTICIPLES = frozenset([
    "begun", "built", "cut", "done", "drawn", "found", "given", "hidden", "held", "kept",
    "known", "left", "lost", "made", "meant", "put", "said", "seen", "shown", "spread", "taken",
    "told", "written"
])  # fmt: skip
_ENDING_IN_ED = frozenset({"embed", "feed", "need", "seed", "speed"})
"""Verbs and nouns that end as a participle does."""

FORBIDDEN_WORDS = frozenset([
    "absent", "alike", "beside", "books", "course", "few", "film", "found", "given", "halves",
    "kept", "lacking", "ledger", "made", "own", "put", "said", "seen", "sound", "standing",
    "take", "taken", "told", "towers", "unhurried", "valueless", "yardstick"
])  # fmt: skip
"""Words that say how a thing came about, or nothing: no function name holds one of them."""

FORBIDDEN_NAMES = frozenset([
    "adds", "at", "do", "done", "flat", "get", "go", "leave", "of", "on", "result", "rows",
    "run", "typed", "worst"
])  # fmt: skip
"""Words that are no name by themselves: of what, at which place, in which order?"""


@dataclass(frozen=True)
class NameFigures:
    """Shares of all functions of a package; names are counted without leading underscores."""

    functions: int
    one_word: float
    """Share of one-word names that are not `GRAMMAR`."""
    participles: float
    """Share of one-word names that are a past participle."""
    words: float
    """Mean words in a name."""
    repeated: tuple[str, ...]
    """Names outside `GRAMMAR` that are defined three times or more."""


def iterate_function_names(package: Path) -> Iterator[tuple[str, str]]:
    """Yield (place, name) of every function and method but the dunder methods."""
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and not node.name.startswith("__"):
                yield f"{path.relative_to(package)}:{node.lineno}", node.name.strip("_")


def measure_names(names: Iterable[str]) -> NameFigures:
    """Compute the figures of some function names."""
    names = list(names)
    one_word = [name for name in names if "_" not in name and name not in GRAMMAR]
    counts = Counter(names)
    return NameFigures(
        functions=len(names),
        one_word=len(one_word) / len(names),
        participles=sum(map(is_participle, one_word)) / len(names),
        words=sum(len(name.split("_")) for name in names) / len(names),
        repeated=tuple(n for n, k in sorted(counts.items()) if k >= 3 and n not in GRAMMAR),
    )


def is_participle(word: str) -> bool:
    """Whether one word says that something was done, not what is done."""
    if word in _IRREGULAR_PARTICIPLES:
        return True
    return word.endswith("ed") and word not in _ENDING_IN_ED


def forbidden_names(package: Path) -> list[str]:
    """List the functions that are called by a word that says nothing of what they do."""
    return [
        f"{place}: {name}"
        for place, name in iterate_function_names(package)
        if name in FORBIDDEN_NAMES or not FORBIDDEN_WORDS.isdisjoint(name.split("_"))
    ]
