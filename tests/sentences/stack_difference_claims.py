"""What is written about stacks, layers and norms that only one of two models has."""

from __future__ import annotations

import re

import pytest

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.difference_sites import adds_in
from tests.sentences.report_values import ROOT


@claim(
    r"",
    "{id_side} has a stack {list_stack} ({layers} layers, width {width}) without counterpart in "
    "{id_other}",
    "comparison",
)
def check_stack(sentence: Sentence, document: Json) -> None:
    stack = _stack(document[sentence["id_side"].lower()], sentence["list_stack"])
    sentence.must_agree(layers=stack["layers"], width=stack["width"])
    assert {sentence["id_side"], sentence["id_other"]} == {"A", "B"}


@claim(
    r"",
    "the stream of {list_stack}[[ ({list_other} in B)]] has {mine} features in A and {theirs} in B",
    "comparison",
)
def check_width(sentence: Sentence, document: Json) -> None:
    mine, theirs = _stack_pair(sentence, document)
    sentence.must_agree(mine=mine["width"], theirs=theirs["width"])


@claim(
    r"",
    "{id_stack}[[ ({list_other} in B)]] has {mine} layers in A and {theirs} in B"
    "[[: {list_unpaired} without counterpart]][[, aligned by content]]",
    "comparison",
)
def check_layers(sentence: Sentence, document: Json) -> None:
    mine, theirs = _stack_pair(sentence, document)
    sentence.must_agree(mine=mine["layers"], theirs=theirs["layers"])
    if not sentence.holds("list_unpaired"):
        return
    counts = {"A": 0, "B": 0}
    for first, last, others, side in re.findall(
        r"layers? (\d+)(?: to (\d+))?((?:, \d+)*) of ([AB])", sentence["list_unpaired"]
    ):
        top = (mine if side == "A" else theirs)["layers"]
        numbers = [int(first), *map(int, re.findall(r"\d+", others))]
        numbers += range(int(first) + 1, int(last) + 1) if last else []
        assert max(numbers) < top and len(set(numbers)) == len(numbers)
        counts[side] = len(numbers)
    assert counts["B"] - counts["A"] == theirs["layers"] - mine["layers"]
    if ", aligned by content" not in sentence.text and counts["A"] * counts["B"] == 0:
        lone = "A" if counts["A"] else "B"
        assert str(max(mine["layers"], theirs["layers"]) - 1) in sentence["list_unpaired"], lone


@claim(
    r"",
    "each layer of {list_stack}[[ ({list_other} in B)]] has {mine} residual adds in A and "
    "{theirs} in B",
    "comparison",
)
def checkadds_in(sentence: Sentence, document: Json) -> None:
    mine, theirs = _stack_pair(sentence, document)
    sentence.must_agree(
        mine=mine["residual_adds_per_layer"], theirs=theirs["residual_adds_per_layer"]
    )


def _stack_pair(sentence: Sentence, document: Json) -> tuple[Json, Json]:
    name = sentence.parts.get("id_stack") or sentence["list_stack"]
    other = sentence.parts.get("list_other") or name
    return _stack(document["a"], name), _stack(document["b"], other)


def _stack(report: Json, name: str) -> Json:
    (stack,) = (each for each in report["architecture"]["stacks"] if (each["id"] or ROOT) == name)
    return dict(stack)


@claim(
    r"",
    "layers {first} and {second} of {list_stack} are swapped in B: each has the weights of the "
    "other",
    "comparison",
)
def check_swap(sentence: Sentence, document: Json) -> None:
    _check_moves(sentence, document, ("first", "second"))


@claim(
    r"",
    "layer {layer} of {list_stack} in B has the weights of layer {source} in A",
    "comparison",
)
def check_move(sentence: Sentence, document: Json) -> None:
    _check_moves(sentence, document, ("layer", "source"))


def _check_moves(sentence: Sentence, document: Json, names: tuple[str, str]) -> None:
    """Norms and gains of the branches tell which layer it was."""
    stack = "" if sentence["list_stack"] == ROOT else sentence["list_stack"]
    here, there = (int(sentence[name]) for name in names)
    ids = [f"{stack}/layer#{layer}" for layer in sorted((here, there))]
    assert any(
        each["kind"] == "moved-layers" and each["a"] == ids
        for each in document["comparison"]["differences"]
    )
    mine, theirs = (_weights_of_layer(document["a"], there), _weights_of_layer(document["b"], here))
    assert mine == pytest.approx(theirs, rel=1e-2) and mine


def _weights_of_layer(report: Json, layer: int) -> list[float]:
    weights = report["measurements"]["branch_weights"]
    return [weights[add["id"]]["norm"] for add in adds_in(report) if add["layer"] == layer]


@claim(
    r"",
    "{id_side} normalises at {id_norm}[[ and {more} more]] (role {id_role}); in {id_other} there "
    "is neither",
    "comparison",
)
def check_missing(sentence: Sentence, document: Json) -> None:
    side = sentence["id_side"].lower()
    difference = next(
        each
        for each in document["comparison"]["differences"]
        if each["kind"] == "missing-norm" and each[side][:1] == [sentence["id_norm"]]
    )
    roles = {
        norm["role"]
        for norm in document[side]["architecture"]["norms"]
        if norm["id"] in difference[side]
    }
    assert roles == {sentence["id_role"]}
    assert sentence.holds("more") == (len(difference[side]) > 1)
    if sentence.holds("more"):
        sentence.must_agree(more=len(difference[side]) - 1)
