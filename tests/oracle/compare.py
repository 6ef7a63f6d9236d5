"""Compare two JSON-like trees leaf by leaf; name all that differs or is on one side only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

RELATIVE = 1e-5


def assert_same(actual: Any, expected: Any, absolute: Mapping[str, float] | None = None) -> None:
    """Numbers agree to 1e-5 relative, all else exactly.

    `absolute` gives an absolute tolerance to quantities that may cancel to 0, by key.
    """
    wrong = list(_differences(actual, expected, absolute or {}, ()))
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:40])


def _differences(
    actual: Any, expected: Any, absolute: Mapping[str, float], path: tuple[str, ...]
) -> Iterator[str]:
    here = "/".join(path) or "."
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected.keys() ^ actual.keys():
            yield f"{here}: {key!r} only in the {'report' if key in actual else 'expectation'}"
        for key in expected.keys() & actual.keys():
            yield from _differences(actual[key], expected[key], absolute, (*path, str(key)))
    elif isinstance(expected, float | np.floating):
        allowed = max([RELATIVE * abs(expected), *(absolute.get(part, 0.0) for part in path)])
        if not isinstance(actual, float | int) or not abs(actual - expected) <= allowed:
            yield f"{here}: {actual!r}, expected {float(expected)!r} +- {allowed:.1e}"
    elif isinstance(expected, list) and any(isinstance(each, dict) for each in expected):
        if len(actual) != len(expected):
            yield f"{here}: {actual!r}, expected {expected!r}"
        for place, pair in enumerate(zip(actual, expected, strict=False)):
            yield from _differences(*pair, absolute, (*path, str(place)))
    elif isinstance(expected, list | tuple):
        if list(actual) != list(expected):
            yield f"{here}: {actual!r}, expected {list(expected)!r}"
    elif actual != expected or isinstance(actual, bool) != isinstance(expected, bool):
        yield f"{here}: {actual!r}, expected {expected!r}"
