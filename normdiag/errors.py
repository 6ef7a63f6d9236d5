"""The tree of errors with their exit codes. Each states what failed, why, and what to do.

NormdiagError            5  internal error of normdiag
├── UsageError           2  an invalid option or setting
├── TargetError          3  the target cannot be loaded or run
│   ├── LoadError           no model could be built of it
│   └── RunError            the model does not run on the given inputs
├── IncompleteError      4  evidence is missing under --require-complete
└── ReportError          3  a saved report cannot be read
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of the command line; scripts rely on them."""

    PASSED = 0
    GATE_FAILED = 1
    USAGE = 2
    TARGET = 3
    INCOMPLETE = 4
    INTERNAL = 5


class NormdiagError(Exception):
    """Base of all errors: `what` failed, with its value; `hint` says what to do."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, what: str, hint: str | None = None) -> None:
        self._set_text(what, hint)

    def rewrite_text(self, rewrite: Callable[[str], str]) -> None:
        """Put both parts of the message in other words."""
        self._set_text(rewrite(self.what), None if self.hint is None else rewrite(self.hint))

    def _set_text(self, what: str, hint: str | None) -> None:
        self.args = (what if hint is None else f"{what}\n  hint: {hint}",)
        self.what = what
        self.hint = hint


class UsageError(NormdiagError):
    """An invalid option or setting."""

    exit_code = ExitCode.USAGE


class TargetError(NormdiagError):
    """The target cannot be loaded or run."""

    exit_code = ExitCode.TARGET


class LoadError(TargetError):
    """No model could be built of the target."""


class RunError(TargetError):
    """The model does not run on the given inputs."""


class IncompleteError(NormdiagError):
    """Evidence is missing, and the caller requires all of it."""

    exit_code = ExitCode.INCOMPLETE


class ReportError(NormdiagError):
    """A saved report cannot be read."""

    exit_code = ExitCode.TARGET


@contextmanager
def translate_foreign_errors(
    explain: Callable[[BaseException], NormdiagError],
) -> Iterator[None]:
    """Turn whatever code that is not ours raises into the error that `explain` makes of it.

    Models, tokenizers and factories may raise anything: SystemExit, GeneratorExit, and the panics
    of extensions in Rust are no `Exception`. Errors of normdiag and KeyboardInterrupt pass through.
    """
    try:
        yield
    except (NormdiagError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise explain(error) from error
