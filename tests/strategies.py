"""Hypothesis strategies: any record, with every field filled, from the types of its fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from normdiag.report.report import Report
from normdiag.report.v1 import VERSION

_PLAIN: dict[object, st.SearchStrategy[Any]] = {
    # Often the same few, so that some ids meet; seldom what nobody would call anything.
    str: st.sampled_from(["a", "a.0", "a.0/add#0"]) | st.text(max_size=8),
    int: st.integers(),
    float: st.floats(),
    bool: st.booleans(),
    NoneType: st.none(),
}


def _tuples(item: Any, *_: Any) -> st.SearchStrategy[Any]:
    return st.lists(values_of(item), max_size=2).map(tuple)


def _dicts(key: Any, value: Any) -> st.SearchStrategy[Any]:
    return st.dictionaries(values_of(key), values_of(value), max_size=2)


def _unions(*kinds: Any) -> st.SearchStrategy[Any]:
    return st.one_of(*map(values_of, kinds))


def _literals(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


_BUILT: dict[object, Callable[..., st.SearchStrategy[Any]]] = {
    tuple: _tuples,
    dict: _dicts,
    Union: _unions,
    UnionType: _unions,
    Literal: _literals,
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of one type, as it is annotated in `normdiag.evidence`."""
    if is_dataclass(kind):
        return _records(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    return _BUILT[get_origin(kind)](*get_args(kind))


def _records(kind: Any, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{f.name: values_of(hints[f.name]) for f in fields(kind)} | given)


def reports() -> st.SearchStrategy[Report]:
    """Any report of this version: nothing in it need fit together."""
    return _records(Report, schema_version=st.just(VERSION))
