"""Parts of a report as JSON that several checks read."""

from __future__ import annotations

import math
from typing import Any

from normdiag.report.report import Report
from tests.sentences.claims import Json, Sentence

ROOT = "the model (root)"


def read_document(report: Report) -> Json:
    """Return the report as JSON, with numbers for those that JSON writes as words."""
    return dict(_read_numbers(report.to_dict()))


def _read_numbers(value: Any) -> Any:
    match value:
        case dict():
            return {name: _read_numbers(each) for name, each in value.items()}
        case list():
            return [_read_numbers(each) for each in value]
        case "NaN" | "Infinity" | "-Infinity":
            return float(value)
        case _:
            return value


def stack_of(sentence: Sentence) -> str:
    """Return the id of the stack in a heading such as "Stream of blocks"."""
    name = sentence.heading.split(" of ", 1)[1].split("  ")[0]
    return "" if name == ROOT else name


def adds_of(report: Json, stack: str) -> list[str]:
    """Return the ids of the adds of a stack with values, in order of depth."""
    adds = [add for add in report["architecture"]["residual_adds"] if add["stack"] == stack]
    ids = [add["id"] for add in sorted(adds, key=lambda add: add["depth"])]
    return [id for id in ids if id in report["measurements"]["stream"]]


def layers_of(report: Json, stack: str) -> list[Json]:
    """Return the layer measurements of a stack, in order."""
    layers = report["measurements"]["layers"].values()
    return sorted(
        (each for each in layers if each["stack"] == stack), key=lambda each: each["layer"]
    )


def placement_of(report: Json, stack: str) -> str:
    """Return the placement of a stack."""
    (placement,) = (
        each["placement"] for each in report["architecture"]["stacks"] if each["id"] == stack
    )
    return str(placement)


def is_largest(value: float, values: list[float]) -> bool:
    """Whether none is larger; a value that is not a number counts as the largest."""
    if any(math.isnan(each) for each in values):
        return math.isnan(value)
    return value == max(values)


def is_smallest(value: float, values: list[float]) -> bool:
    """Whether none is smaller; a value that is not a number counts as the smallest."""
    if any(math.isnan(each) for each in values):
        return math.isnan(value)
    return value == min(values)


def numbers_of(value: Any) -> list[float]:
    """Return the values that are there."""
    return [each for each in value if each is not None]
