"""What is written in front of tables: the scales of bars, and definitions that hold numbers."""

from __future__ import annotations

import math

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.report_values import adds_of, stack_of

_LOG_FROM = 20.0


@claim(r"Stream of ", "Bars: {id_kind} scale, {low} to {high}")
def check_stream_bars(sentence: Sentence, report: Json) -> None:
    stream = report["measurements"]["stream"]
    adds = adds_of(report, stack_of(sentence))
    check_scale(sentence, [stream[id]["out_norm"]["median"] for id in adds])


@claim(r"Gradients", "share: of the squared gradient norm. Bars: linear scale, {low} to {high}")
def check_share_bars(sentence: Sentence, report: Json) -> None:
    sentence.must_agree(low=0, high=1)


@claim(r"Gradients", "^Bars: {id_kind} scale, {low} to {high}")
def check_gradient_bars(sentence: Sentence, report: Json) -> None:
    """Of the adds of one stack."""
    gradients = report["measurements"]["gradients"]
    candidates = [
        [
            gradients["stream"][id]
            for id in adds_of(report, stack["id"])
            if id in gradients["stream"]
        ]
        for stack in report["architecture"]["stacks"]
    ]
    for values in candidates:
        try:
            return check_scale(sentence, values)
        except AssertionError:
            continue
    raise AssertionError(f"{sentence.text!r} is of none of {candidates}")


def check_scale(sentence: Sentence, values: list[float]) -> None:
    """Check that a scale reaches from 0, or from the smallest value, to the largest.

    Raises:
        AssertionError: it does not.
    """
    finite = [value for value in values if math.isfinite(value)]
    positive = [value for value in finite if value > 0]
    low, high = min(positive, default=0.0), max(finite, default=0.0)
    is_log = low > 0 and high / low > _LOG_FROM
    assert sentence["id_kind"] == ("log" if is_log else "linear")
    sentence.must_agree(low=low if is_log else 0.0, high=high)


@claim(r"Number formats", "eps = {zero}: norms whose epsilon rounds to {same}")
def check_zero_epsilon(sentence: Sentence, report: Json) -> None:
    sentence.must_agree(zero=0, same=0)
