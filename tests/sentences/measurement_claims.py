"""What is written about the subject, the stacks, norms, gradients, swaps, formats and coverage."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.report_values import ROOT, adds_of, is_largest, numbers_of
from tests.sentences.shown_numbers import agrees_with

_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


@claim(r"Invariances", "(their effective learning rate goes as {one}/||W||^{two}): {list_weights}.")
def check_scale_invariant(sentence: Sentence, report: Json) -> None:
    weights = {
        each["weight"]: each["frobenius"]
        for each in report["measurements"]["invariances"]["scale_invariant_weights"]
    }
    shown = re.findall(r"(\S+) \((\S+)\)", sentence["list_weights"])
    assert shown
    for name, size in shown:
        assert agrees_with(size, weights[name]), (name, size, weights)


@claim(r"Gradients", "Loss ({id_kind}): {value}, mean over {tokens} [[target ]]token[[s]]")
def check_loss(sentence: Sentence, report: Json) -> None:
    loss = report["measurements"]["gradients"]["loss"]
    assert loss["kind"] == sentence["id_kind"]
    sentence.must_agree(value=loss["value"], tokens=loss["tokens"])


@claim(
    r"Gradients",
    "||dL/dy|| (root mean square over tokens): {first} at the first add, {last} at the last"
    "[[; first / last: {ratio}]]",
)
def check_gradient_ends(sentence: Sentence, report: Json) -> None:
    gradients = report["measurements"]["gradients"]
    ends = [
        (gradients["stream"][ids[0]], gradients["stream"][ids[-1]])
        for stack in report["architecture"]["stacks"]
        if (ids := [id for id in adds_of(report, stack["id"]) if id in gradients["stream"]])
    ]
    first, last = next(
        (
            pair
            for pair in ends
            if agrees_with(sentence["first"], pair[0]) and agrees_with(sentence["last"], pair[1])
        ),
        (None, None),
    )
    assert first is not None and last is not None, f"{sentence.text!r} is of no stack: {ends}"
    if sentence.holds("ratio"):
        sentence.must_agree(ratio=first / last)


@claim(
    r"Gradients",
    "log-linear fit from output to input: {rate} per layer[[ ± {error} (standard error)]], "
    "{total} from the last add to the first",
)
def check_gradient_trend(sentence: Sentence, report: Json) -> None:
    gradients = report["measurements"]["gradients"]
    stack, trend = next(
        (stack, trend)
        for stack, trend in gradients["trends"].items()
        if agrees_with(sentence["rate"], 1 / trend["rate"])
        and agrees_with(sentence["total"], 1 / trend["total"])
    )
    if sentence.holds("error"):
        sentence.must_agree(error=trend["rate_error"] / trend["rate"] ** 2)
    ids = [id for id in adds_of(report, stack) if id in gradients["stream"]]
    logs = [math.log(gradients["stream"][id]) for id in ids]
    layers = {add["id"]: add["layer"] for add in report["architecture"]["residual_adds"]}
    per_layer = len(ids) / len({layers[id] for id in ids})
    centre = (len(ids) - 1) / 2
    slope = sum((i - centre) * log for i, log in enumerate(logs)) / sum(
        (i - centre) ** 2 for i in range(len(ids))
    )
    assert trend["rate"] == pytest.approx(math.exp(slope * per_layer), rel=1e-6)
    assert trend["total"] == pytest.approx(math.exp(slope * (len(ids) - 1)), rel=1e-6)


@claim(
    r"Gradients",
    "no one factor per layer; largest step from output to input: {factor} from {id_after} to "
    "{id_before}",
)
def check_gradient_step(sentence: Sentence, report: Json) -> None:
    gradients = report["measurements"]["gradients"]
    stream = gradients["stream"]
    before, after = sentence["id_before"], sentence["id_after"]
    sentence.must_agree(factor=stream[before] / stream[after])
    stack = next(
        s["id"] for s in report["architecture"]["stacks"] if before in adds_of(report, s["id"])
    )
    ids = [id for id in adds_of(report, stack) if id in stream]
    steps = [abs(math.log(stream[a] / stream[b])) for a, b in pairwise(ids)]
    assert ids.index(after) == ids.index(before) + 1
    assert steps[ids.index(before)] == max(steps)
    trend = gradients["trends"][stack]
    assert trend["rate_error"] >= 0.25 * trend["rate"]


@claim(
    r"Gradients",
    "Global gradient norm: {norm}. Clipping at {at}: all gradients × {factor}[[; largest "
    "share: {share}, {id_group}]].",
)
def check_clipping(sentence: Sentence, report: Json) -> None:
    gradients = report["measurements"]["gradients"]
    at = gradients["clipping"]["max_norm"]
    sentence.must_agree(norm=gradients["global_norm"], at=at, factor=at / gradients["global_norm"])
    if sentence.holds("share"):
        groups = gradients["groups"]
        assert groups[sentence["id_group"]] == max(groups.values())
        sentence.must_agree(share=groups[sentence["id_group"]])


@claim(r"Gradients", "Global gradient norm: {norm}. Clipping at {at}: no effect.")
def check_no_clipping(sentence: Sentence, report: Json) -> None:
    gradients = report["measurements"]["gradients"]
    sentence.must_agree(norm=gradients["global_norm"], at=gradients["clipping"]["max_norm"])
    assert gradients["global_norm"] <= gradients["clipping"]["max_norm"]


@claim(
    r"Invariances",
    "[[invariant to {list_fixed}]][[; ]][[changed by {list_changed}]][[; energy left at "
    "batch size {one} in train mode: {energy}]] ([[run]][[replayed]] at {id_norm})",
)
def check_invariance(sentence: Sentence, report: Json) -> None:
    kinds = report["measurements"]["invariances"]["kinds"].values()
    (kind,) = (each for each in kinds if each["norm"] == sentence["id_norm"])
    changes = {name: kind[name] for name in ("scale", "shift", "batch", "padding")}
    changes["train mode"] = kind["train_vs_eval"]
    listed = (
        (sentence.parts["list_changed"] or "").split(", ") if sentence.holds("list_changed") else []
    )
    shown = dict(each.removesuffix(")").split(" (") for each in listed)
    fixed = {what for what, change in changes.items() if change is not None and change <= 1e-3}
    assert set((sentence.parts["list_fixed"] or "").split(", ")) - {""} == fixed
    assert shown.keys() == {what for what in changes if changes[what] is not None} - fixed
    for what, share in shown.items():
        assert agrees_with(share, changes[what]), (what, share, kind)
    if sentence.holds("energy"):
        sentence.must_agree(one=1, energy=kind["batch_size_one"])


@claim(
    r"RMSNorm or LayerNorm",
    "{list_what} at [[all {all}]][[{some} of {norms}]] norm[[s]][[ changes the last hidden "
    "state by {change} (||h' - h|| / ||h|| over {tokens} token[[s]])]][[; {list_loss} loss "
    "{before} -> {after} ({targets} target[[s]])]]",
)
def check_swap(sentence: Sentence, report: Json) -> None:
    swap = report["measurements"]["norm_swap"]
    many = swap["layer_norms"] + swap["rms_norms"]
    if sentence.holds("all"):
        assert swap["swapped"] == many
        sentence.must_agree(all=many)
    else:
        sentence.must_agree(some=swap["swapped"], norms=many)
    if sentence.holds("change"):
        sentence.must_agree(change=swap["hidden_change"], tokens=swap["tokens"])
    if sentence.holds("before"):
        loss = swap["loss"]
        sentence.must_agree(before=loss["before"], after=loss["after"], targets=loss["tokens"])


@claim(
    r"RMSNorm or LayerNorm",
    "Largest median change of a single norm's output, over sampled rows of its own input: "
    "{median} at {id_norm}",
)
def check_single_swap(sentence: Sentence, report: Json) -> None:
    alone = report["measurements"]["norm_swap"]["alone"]
    assert is_largest(
        alone[sentence["id_norm"]]["median"], [each["median"] for each in alone.values()]
    )
    sentence.must_agree(median=alone[sentence["id_norm"]]["median"])


@claim(
    r"RMSNorm or LayerNorm",
    "Energy of {id_kind} inputs in their mean direction, in units of {one}/H (a random direction; "
    "{norms} norm[[s]]): median {median}, largest {largest} ({share} of the energy) at {id_norm}",
)
def check_centring(sentence: Sentence, report: Json) -> None:
    (effect,) = (
        each
        for each in report["measurements"]["invariances"]["centring"]
        if each["kind"] == sentence["id_kind"].lower()
    )
    assert effect["norm"] == sentence["id_norm"]
    sentence.must_agree(
        one=1,
        norms=effect["norms"],
        median=effect["median"],
        largest=effect["max"],
        share=effect["share"],
    )
    norm = next(each for each in report["architecture"]["norms"] if each["id"] == effect["norm"])
    assert effect["share"] * norm["features"] == pytest.approx(effect["max"], rel=1e-6)


@claim(
    r"Number formats",
    "{id_format}: stream of {list_stack} overflows from layer {layer} on; with all that is "
    "written to it multiplied by {two}^{power} it fits with a factor {factor} to spare, and "
    "its norms undo the scale[[, eps share up to {share}]]",
)
def check_remedy(sentence: Sentence, report: Json) -> None:
    name = "" if sentence["list_stack"] == ROOT else sentence["list_stack"]
    formats = report["measurements"]["precision"]["formats"]
    remedy = formats[sentence["id_format"]]["remedies"][name]
    sentence.must_agree(layer=remedy["layer"], two=2, power=math.log2(remedy["factor"]), factor=2)
    peak = max(
        numbers_of(report["measurements"]["stream"][id]["max_abs"] for id in adds_of(report, name))
    )
    if math.isfinite(peak):
        assert peak * remedy["factor"] * 2 <= formats[sentence["id_format"]]["largest"]
    if sentence.holds("share"):
        sentence.must_agree(share=remedy["eps_share"]["max"])


@claim(
    r"Coverage",
    "Reconstruction error (x_in + Σ u vs x_out) of {list_stack}: {error} (largest, at layer "
    "{layer})",
)
def check_closure(sentence: Sentence, report: Json) -> None:
    name = "" if sentence["list_stack"] == ROOT else sentence["list_stack"]
    closure = report["measurements"]["closure"][name]
    sentence.must_agree(error=closure["max_rel_error"], layer=closure["layer"])


@claim(
    r"Coverage",
    "Replay error of {list_counts}, recomputed from their operands: {error} (largest, at "
    "{id_site})",
)
def check_replay(sentence: Sentence, report: Json) -> None:
    replay = {
        id: each["max_rel_error"]
        for id, each in report["measurements"]["replay"].items()
        if each["max_rel_error"] is not None
    }
    norms = {norm["id"] for norm in report["architecture"]["norms"]}
    counts = {"norm": len(replay.keys() & norms), "add": len(replay.keys() - norms)}
    shown = re.findall(r"(\S+) (norm|add)s?", sentence["list_counts"])
    assert {noun: int(many.replace(",", "")) for many, noun in shown} == {
        noun: many for noun, many in counts.items() if many
    }
    assert is_largest(replay[sentence["id_site"]], list(replay.values()))
    sentence.must_agree(error=replay[sentence["id_site"]])
