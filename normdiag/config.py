"""Settings of a project: `normdiag.toml`, or `[tool.normdiag]` of its `pyproject.toml`.

    select = ["ND3", "geometric-growth"]
    ignore = { ND301 = "epsilon is set on purpose" }    # or a list of codes
    fail_on = "warning"
    require_complete = true
    max = { "measurements.growth.total" = 50 }
    margin = 0.1
    measure = ["stream", "norms"]
    clip = 0.5
    texts = "probes.txt"                                # beside the settings file
    dtype = "bfloat16"

    [thresholds.epsilon-dominates]
    eps_share = 0.05

A value of the wrong type and a key that nobody reads are errors: a setting that is silently
dropped is a gate that silently stands open. Remote code cannot be allowed here, since settings
are found by searching upward from the current directory.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from normdiag.errors import UsageError
from normdiag.findings import SEVERITIES

T = TypeVar("T")

FAIL_ON = (*SEVERITIES, "never")
DTYPES = ("float64", "float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a settings file says. None: it does not say, and the command's own default holds."""

    path: Path | None = None
    """The file that was read; None where there is none."""
    select: tuple[str, ...] | None = None
    """Codes, names or prefixes of the rules to judge by."""
    ignore: Mapping[str, str] = field(default_factory=dict)
    """Code, name or prefix -> the reason why it is ignored ("" where none is given)."""
    fail_on: str | None = None
    """The severity from which `normdiag check` fails."""
    require_complete: bool | None = None
    max: Mapping[str, float] = field(default_factory=dict)
    """Path into the report -> what its worst value must not be above."""
    min: Mapping[str, float] = field(default_factory=dict)
    """Path into the report -> what its worst value must not be below."""
    margin: float | None = None
    """The share by which a value may be past that of the baseline."""
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Rule code or name -> threshold -> value."""
    measure: tuple[str, ...] | None = None
    clip: float | None = None
    """The global norm at which gradients are clipped."""
    texts: Path | None = None
    """The file of probe texts, resolved against the settings file."""
    device: str | None = None
    dtype: str | None = None
    seed: int | None = None


def find(directory: Path) -> Settings:
    """The settings of the nearest directory, from `directory` upward, that has any.

    `normdiag.toml` is preferred to the `pyproject.toml` beside it; a `pyproject.toml` without
    `[tool.normdiag]` is passed over. Raises UsageError, see `read`.
    """
    for folder in (directory, *directory.parents):
        for name in ("normdiag.toml", "pyproject.toml"):
            path = folder / name
            if path.is_file() and (settings := read(path)) is not None:
                return settings
    return Settings()


def read(path: Path) -> Settings | None:
    """The settings in `path`; None where it is a `pyproject.toml` that has none.

    Raises UsageError with the file, the key and the value: unreadable file, broken TOML, unknown
    key, wrong type, a threshold that is not finite.
    """
    table: Any = _toml(path)
    if path.name == "pyproject.toml":
        tool = table.get("tool", {})
        if not isinstance(tool, dict) or "normdiag" not in tool:
            return None
        table = tool["normdiag"]
        if not isinstance(table, dict):
            raise UsageError(
                f"{path}: tool.normdiag must be a table, not {table!r}",
                "write it as [tool.normdiag]",
            )
    return Settings(path=path, **{key: _value(path, key, given) for key, given in table.items()})


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", "make it readable, or remove it"
        ) from error
    except ValueError as error:  # broken TOML, text that is not UTF-8, an endless integer
        raise UsageError(f"{path} is not TOML: {error}", "correct it at that place") from error


def _value(path: Path, key: str, given: object) -> Any:
    reader = READERS.get(key)
    if reader is None:
        close = get_close_matches(key, READERS, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"{path}: unknown key {key!r}", f"{meant}known keys: {', '.join(sorted(READERS))}"
        )
    try:
        value = reader(given)
    except _WrongValue as error:
        raise UsageError(f"{path}: {key}{error.where} = {error.given!r}", error.wanted) from error
    return path.parent / value if isinstance(value, Path) else value


class _WrongValue(Exception):
    """A value that a key cannot have; `where` is the rest of the key, below the top level."""

    def __init__(self, given: object, wanted: str, where: str = "") -> None:
        super().__init__(wanted)
        self.given, self.wanted, self.where = given, wanted, where


def _exactly(kind: type[T], wanted: str) -> Callable[[object], T]:
    def reader(given: object) -> T:
        # bool is an int to isinstance, and `seed = true` is nobody's intention.
        if type(given) is not kind:
            raise _WrongValue(given, wanted)
        return given

    return reader


_text = _exactly(str, "it must be a string")
_flag = _exactly(bool, "it must be true or false")


def _seed(given: object) -> int:
    seed = _exactly(int, "it must be a whole number")(given)
    if not 0 <= seed < 2**63:
        raise _WrongValue(given, "it must be between 0 and 2^63 - 1")
    return seed


def _choice(*choices: str) -> Callable[[object], str]:
    def reader(given: object) -> str:
        if given not in choices:
            raise _WrongValue(given, f"it must be one of {', '.join(choices)}")
        return str(given)

    return reader


def _texts(given: object) -> Path:
    return Path(_text(given))


def _names(given: object) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
        raise _WrongValue(given, "it must be a list of strings")
    return tuple(given)


def _ignore(given: object) -> dict[str, str]:
    """A list of codes, or a table of code -> reason."""
    if isinstance(given, dict):
        for code, reason in given.items():
            if not isinstance(reason, str):
                raise _WrongValue(reason, "the reason must be a string", f".{code}")
        return dict(given)
    return dict.fromkeys(_names(given), "")


def _thresholds(given: object) -> dict[str, dict[str, float]]:
    if not isinstance(given, dict):
        raise _WrongValue(given, "it must be a table: [thresholds.RULE]")
    return {rule: _rule_thresholds(rule, limits) for rule, limits in given.items()}


def _rule_thresholds(rule: str, given: object) -> dict[str, float]:
    if not isinstance(given, dict):
        raise _WrongValue(given, "it must be a table of threshold = number", f".{rule}")
    return {name: _finite(f".{rule}.{name}", value) for name, value in given.items()}


def _bounds(given: object) -> dict[str, float]:
    """Path -> number. TOML makes nested tables of the dots of a key that is not in quotes."""
    if not isinstance(given, dict):
        raise _WrongValue(given, 'it must be a table of "path" = number')
    return dict(_flat(given, ""))


def _flat(table: dict[str, Any], before: str) -> Iterator[tuple[str, float]]:
    for key, value in table.items():
        path = f"{before}.{key}".lstrip(".")
        if isinstance(value, dict):
            yield from _flat(value, path)
        else:
            yield path, _finite(f".{path}", value)


def _margin(given: object) -> float:
    margin = _finite("", given)
    if margin < 0:
        raise _WrongValue(given, "it must be 0 or more: 0.1 lets a value get worse by a tenth")
    return margin


def _clip(given: object) -> float:
    clip = _finite("", given)
    if clip <= 0:
        raise _WrongValue(given, "it must be above 0: the global norm at which training clips")
    return clip


def _finite(where: str, given: object) -> float:
    wanted = "it must be a finite number"
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise _WrongValue(given, wanted, where)
    try:
        value = float(given)
    except OverflowError as error:  # an integer beyond every float
        raise _WrongValue(given, wanted, where) from error
    if not math.isfinite(value):
        raise _WrongValue(given, wanted, where)
    return value


READERS: Mapping[str, Callable[[object], Any]] = {
    "select": _names,
    "ignore": _ignore,
    "fail_on": _choice(*FAIL_ON),
    "require_complete": _flag,
    "max": _bounds,
    "min": _bounds,
    "margin": _margin,
    "thresholds": _thresholds,
    "measure": _names,
    "clip": _clip,
    "texts": _texts,
    "device": _text,
    "dtype": _choice(*DTYPES),
    "seed": _seed,
}
