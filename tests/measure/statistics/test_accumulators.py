"""Every streaming statistic of the package has update, merge and compute."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import normdiag
from normdiag.measure.sites.site_statistics import SiteStatistics
from normdiag.measure.statistics.accumulator import Accumulator
from normdiag.numerics.quantiles import QuantileSketch

METHODS = ("update", "merge", "compute")
FOREIGN_UPDATES = {"ProgressAdapter"}
"""Classes whose `update` is another library's protocol: progress bars."""


def iterate_classes() -> Iterator[type[Any]]:
    """Every class that the package defines."""
    for module in pkgutil.walk_packages(normdiag.__path__, "normdiag."):
        if module.name == "normdiag.__main__":
            continue
        for _, each in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if each.__module__ == module.name:
                yield each


def is_accumulator(each: type[Any]) -> bool:
    """Whether a class updates itself with data, or says that it accumulates."""
    if each.__name__ in FOREIGN_UPDATES or each is Accumulator:
        return False
    has_claim = (each.__doc__ or "").startswith("Accumulator") or "Accumulator" in each.__name__
    return "update" in vars(each) or has_claim


def missing_methods(each: type[Any]) -> set[str]:
    return {name for name in METHODS if not inspect.isfunction(getattr(each, name, None))}


def test_every_accumulator_has_the_protocol() -> None:
    accumulators = {each for each in iterate_classes() if is_accumulator(each)}
    assert {QuantileSketch, SiteStatistics} <= accumulators
    assert len(accumulators) >= 14
    assert {each.__qualname__: missing_methods(each) for each in accumulators} == {
        each.__qualname__: set() for each in accumulators
    }


def test_updates_and_merges_are_in_place() -> None:
    for each in iterate_classes():
        if is_accumulator(each):
            for name in ("update", "merge"):
                assert inspect.signature(getattr(each, name)).return_annotation == "None", each


def test_one_without_merge_is_found() -> None:
    class Total:
        """Accumulator of a sum."""

        def update(self, number: float) -> None: ...

        def compute(self) -> float: ...

    class Silent:
        """Counts, and says so nowhere."""

        def update(self, number: float) -> None: ...

    class Claimed:
        """Accumulator of nothing yet."""

    assert is_accumulator(Total) and missing_methods(Total) == {"merge"}
    assert is_accumulator(Silent) and missing_methods(Silent) == {"merge", "compute"}
    assert is_accumulator(Claimed) and missing_methods(Claimed) == set(METHODS)
