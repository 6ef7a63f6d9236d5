"""Stored names that fit the model once a wrapper's part is cut from them.

A module that was compiled, wrapped or nested when it was saved leaves its attribute in every key:
`_orig_mod.`, `module.`, `model.`, or `state_dict.` of a training checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Renaming:
    """Which stored names are cut to which, and what is cut from them."""

    cut: tuple[str, ...]
    """Each with its dot."""
    names: Mapping[str, str]
    """Stored name -> name without it, for those that change."""


def find_renamings(stored: Shapes, expected: Shapes, missing: frozenset[str]) -> list[Renaming]:
    """The ways to cut `stored` names so that all of `missing` is there, with the right shapes.

    A prefix is preferred to parts inside; more than one result means that the checkpoint holds the
    model more than once. `expected` are all names of the model, `missing` those that it lacks.
    """
    if not missing:
        return []
    by_prefix = [
        Renaming((prefix,), _cut_prefix(stored, expected, prefix))
        for prefix in sorted(_prefixes_of(min(missing), stored))
    ]
    fitting = [each for each in by_prefix if _fits(each, stored, expected, missing)]
    if fitting:
        return fitting
    inside = _cut_foreign_parts(stored, expected)
    return [inside] if _fits(inside, stored, expected, missing) else []


def _prefixes_of(name: str, stored: Shapes) -> Iterator[str]:
    """What stands before `name` in stored names that end with it."""
    yield from (key[: -len(name)] for key in stored if key.endswith("." + name))


def _cut_prefix(stored: Shapes, expected: Shapes, prefix: str) -> dict[str, str]:
    """The names without `prefix`, save those that are names of the model as they are."""
    return {
        key: key[len(prefix) :] for key in stored if key.startswith(prefix) and key not in expected
    }


def _cut_foreign_parts(stored: Shapes, expected: Shapes) -> Renaming:
    """Without the parts of names that no name of the model has."""
    known = {part for name in expected for part in name.split(".")}
    cut: dict[str, None] = {}
    names: dict[str, str] = {}
    for key in stored:
        parts = key.split(".")
        name = ".".join(part for part in parts if part in known)
        if name != key and name in expected:
            names[key] = name
            cut |= dict.fromkeys(f"{part}." for part in parts if part not in known)
    return Renaming(tuple(cut), names)


def _fits(renaming: Renaming, stored: Shapes, expected: Shapes, missing: frozenset[str]) -> bool:
    """Whether every missing name is there once, and no name that fitted before is taken.

    A loader may miss what is no name of the model; nothing can be said to fit that.
    """
    targets = list(renaming.names.values())
    is_unique = len(set(targets)) == len(targets)
    taken = set(targets) & (stored.keys() - renaming.names.keys())
    by_target = {name: stored[key] for key, name in renaming.names.items()}
    shapes = {name: expected.get(name) for name in missing}
    is_found = all(shape is not None and shape == by_target.get(n) for n, shape in shapes.items())
    return is_unique and not taken and is_found
