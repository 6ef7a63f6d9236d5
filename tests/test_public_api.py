"""`normdiag` offers just what `__all__` names, and resolves it when it is asked for."""

from __future__ import annotations

import inspect

import pytest

import normdiag


def test_all_is_sorted_and_there() -> None:
    assert normdiag.__all__ == sorted(normdiag.__all__)
    assert all(getattr(normdiag, name) is not None for name in normdiag.__all__)


def test_all_is_what_the_contract_names() -> None:
    assert set(normdiag.__all__) >= {"Report", "inspect", "load_report", "trace"}


def test_dir_lists_them() -> None:
    assert set(normdiag.__all__) <= set(dir(normdiag))


@pytest.mark.parametrize("name", normdiag.__all__)
def test_each_has_a_page(name: str) -> None:
    value = getattr(normdiag, name)
    if callable(value):
        assert inspect.getdoc(value), name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_like_this"):
        normdiag.nothing_like_this  # noqa: B018


def test_the_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert normdiag.__version__ == version("normdiag")
