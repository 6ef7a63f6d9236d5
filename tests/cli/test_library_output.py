"""What a model prints is no part of the report."""

import os
import sys
import warnings

import pytest

from normdiag.cli.library_output import ENVIRONMENT, redirect_library_output


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ENVIRONMENT:
        monkeypatch.setenv(name, "as it was")


def test_prints_go_to_stderr(capsys):
    with redirect_library_output(verbose=False):
        sys.stdout.write("building\n")
    sys.stdout.write("the report\n")
    assert capsys.readouterr() == ("the report\n", "building\n")


@pytest.mark.parametrize("verbose", [False, True])
def test_warnings_are_for_the_verbose(verbose):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with redirect_library_output(verbose=verbose):
            warnings.warn("something old", DeprecationWarning, stacklevel=1)
    assert len(caught) == verbose


def test_what_the_user_has_set_is_left_alone(monkeypatch):
    first, *others = ENVIRONMENT
    for name in others:
        monkeypatch.delenv(name)
    with redirect_library_output(verbose=False):
        assert os.environ[first] == "as it was"
        assert all(os.environ[name] == ENVIRONMENT[name] for name in others)


def test_stdout_comes_back_after_an_error():
    before = sys.stdout
    with pytest.raises(RuntimeError), redirect_library_output(verbose=False):
        raise RuntimeError
    assert sys.stdout is before
