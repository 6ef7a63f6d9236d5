"""Positions in the tree of modules; what a module is called does not count."""

from __future__ import annotations


def is_inside(inner: str, outer: str) -> bool:
    """Whether one path lies below another; everything but itself lies below the model's, ""."""
    a, b = _split_path(inner), _split_path(outer)
    return len(a) > len(b) and a[: len(b)] == b


def paths_between(outer: str, inner: str) -> list[str]:
    """Return the paths strictly between two, outermost first; none where neither holds the other.

    >>> paths_between("model", "model.blocks.0.mlp")
    ['model.blocks', 'model.blocks.0']
    """
    if not is_inside(inner, outer):
        return []
    parts, first = _split_path(inner), len(_split_path(outer)) + 1
    return [".".join(parts[:end]) for end in range(first, len(parts))]


def parent_path(path: str) -> str:
    """Return the path of the module or container around another."""
    return path.rpartition(".")[0]


def _split_path(path: str) -> list[str]:
    return path.split(".") if path else []
