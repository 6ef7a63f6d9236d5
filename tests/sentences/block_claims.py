"""What is written about the Jacobians of the blocks of a stack."""

from __future__ import annotations

import re
from math import prod

import pytest

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.findings import finding_of
from tests.sentences.report_values import is_largest, numbers_of, stack_of

_JACOBIANS = r"Jacobians of "


def layer_blocks(report: Json, stack: str) -> dict[int, Json]:
    """Return the blocks of the layers of a stack, by layer."""
    return {
        each["layer"]: each
        for id, each in report["measurements"]["blocks"].items()
        if each["span"] == "layer" and id.startswith(f"{stack}/layer#")
    }


@claim(
    _JACOBIANS,
    "Jacobians of {list_stack}  layer by layer, medians[[ (of two in the middle the worse one, of "
    "kappa the better)]], column by column, over {many} tokens (positions {list_positions} of "
    "sequence {sequence}"
    "[[, each run on the tokens up to {id_it}]]"
    "[[, run on {context} of its tokens, the very last one among them]])",
)
def check_tokens(sentence: Sentence, report: Json) -> None:
    block = next(iter(_blocks_of(sentence, report).values()))
    tokens = [each["token"] for each in block["tokens"]]
    contexts = [each["context"] for each in block["tokens"]]
    shown = [int(each) for each in re.findall(r"\d+", sentence["list_positions"])]
    assert shown == [token["position"] for token in tokens]
    sentence.must_agree(many=len(tokens), sequence=tokens[-1]["sequence"])
    if sentence.holds("context"):
        assert len(set(contexts)) == 1 and contexts[0] > max(shown)
        sentence.must_agree(context=contexts[0])
    elif sentence.holds("id_it"):
        assert contexts == [position + 1 for position in shown]


@claim(
    _JACOBIANS,
    "Jacobians of {list_stack}  layer by layer, at token {token} of sequence {sequence}",
)
def check_token(sentence: Sentence, report: Json) -> None:
    token = next(iter(_blocks_of(sentence, report).values()))["token"]
    sentence.must_agree(token=token["position"], sequence=token["sequence"])


def _blocks_of(sentence: Sentence, report: Json) -> dict[int, Json]:
    return layer_blocks(report, stack_of(sentence))


@claim(
    _JACOBIANS,
    "All layers together (median): sigma_max {sigma}[[; product of the layers' sigma_max: "
    "{product}]]",
)
def check_whole(sentence: Sentence, report: Json) -> None:
    whole = report["measurements"]["blocks"][stack_of(sentence)]
    sentence.must_agree(sigma=whole["sigma_max"])
    if not sentence.holds("product"):
        return
    sentence.must_agree(product=whole["product"])
    layers = _blocks_of(sentence, report).values()
    if all(len(each["tokens"]) == len(whole["tokens"]) for each in layers):
        products = sorted(
            prod(each["tokens"][k]["sigma_max"] for each in layers)
            for k in range(len(whole["tokens"]))
        )
        middle = products[len(products) // 2]  # of two in the middle the larger one
        assert whole["product"] == pytest.approx(middle, rel=1e-6)


@claim(_JACOBIANS, "Largest median kappa: {kappa} (layer {layer})")
def check_largest_kappa(sentence: Sentence, report: Json) -> None:
    blocks = _blocks_of(sentence, report)
    kappa = blocks[int(sentence["layer"])]["kappa"]
    sentence.must_agree(kappa=kappa)
    assert kappa is None or is_largest(kappa, numbers_of(each["kappa"] for each in blocks.values()))
    same = [layer for layer, block in blocks.items() if block["kappa"] == kappa]
    assert int(sentence["layer"]) == min(same), "the first of several is named"


@claim(
    _JACOBIANS,
    "Left out: up to {zeros} of {width} directions, which the norm on the stream removes by its "
    "form or by gains near {near}",
)
def check_removed(sentence: Sentence, report: Json) -> None:
    (stack,) = (s for s in report["architecture"]["stacks"] if s["id"] == stack_of(sentence))
    zeros = max(each["zeros"] for each in _blocks_of(sentence, report).values())
    sentence.must_agree(zeros=zeros, width=stack["width"], near=0)


@claim(
    r"ND503",
    "the Jacobian of {list_place} has kappa [[at least ]]{kappa} (threshold {threshold}): "
    "sigma_max "
    "{largest}[[, sigma_min {smallest}]], medians over {tokens} tokens; kappa {low} to {high}, "
    "above the threshold at {above} of them",
)
def check_block_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    blocks = report["measurements"]["blocks"]
    block = max((blocks[id] for id in _block_ids(finding, report)), key=lambda b: b["kappa"])
    kappas = [each["kappa"] for each in block["tokens"]]
    sentence.must_agree(
        kappa=block["kappa"],
        threshold=finding["threshold"],
        largest=block["sigma_max"],
        tokens=len(kappas),
        low=min(kappas),
        high=max(kappas),
        above=sum(kappa > finding["threshold"] for kappa in kappas),
    )
    if sentence.holds("smallest"):
        sentence.must_agree(smallest=block["sigma_min"])


def _block_ids(finding: Json, report: Json) -> list[str]:
    """The blocks of the span that the message speaks of, at the layers of its adds."""
    adds = [
        each for each in report["architecture"]["residual_adds"] if each["id"] in finding["ids"]
    ]
    if " layer" in finding["message"].split(" has kappa")[0]:
        return [f"{add['stack']}/layer#{add['layer']}" for add in adds]
    return [add["id"] for add in adds]
