"""What is written about the stream of a stack."""

from __future__ import annotations

import math
import re

import pytest

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.report_values import (
    adds_of,
    is_largest,
    is_smallest,
    layers_of,
    numbers_of,
    placement_of,
    stack_of,
)
from tests.sentences.shown_numbers import agrees_with

_STREAM = r"Stream of "
_FORMS = {
    "additive": "additive, √(1 + b l) over adds l (independent writes), b =",
    "geometric": "geometric,",
    "power": "power of depth, exponent",
    "bounded": "bounded, it tends to",
}


@claim(
    _STREAM,
    "Largest max |y| over the median of tokens' median |y|: {times} (|y| = {y}) at {id_add}, "
    "channel {channel}, token {token} of sequence {sequence}",
)
def check_outlier(sentence: Sentence, report: Json) -> None:
    stream = report["measurements"]["stream"]
    ratios = {
        id: stream[id]["max_abs"] / stream[id]["median_abs"]
        for id in adds_of(report, stack_of(sentence))
        if stream[id]["median_abs"]
    }
    add = stream[sentence["id_add"]]
    assert is_largest(ratios[sentence["id_add"]], list(ratios.values()))
    sentence.must_agree(
        times=ratios[sentence["id_add"]],
        y=add["max_abs"],
        channel=add["max_channel"],
        token=add["max_token"]["position"],
        sequence=add["max_token"]["sequence"],
    )


@claim(
    _STREAM,
    "Largest |y|: {y} at {id_add}, channel {channel}, token {token} of sequence {sequence}",
)
def check_largest_value(sentence: Sentence, report: Json) -> None:
    add = report["measurements"]["stream"][sentence["id_add"]]
    assert not math.isfinite(add["max_abs"])
    sentence.must_agree(
        y=add["max_abs"],
        channel=add["max_channel"],
        token=add["max_token"]["position"],
        sequence=add["max_token"]["sequence"],
    )


@claim(
    _STREAM,
    "Largest update ratio: {ratio} at {id_ratio}. Lowest cosine: {cosine} at {id_cosine}",
)
def check_extremes(sentence: Sentence, report: Json) -> None:
    stream = report["measurements"]["stream"]
    adds = adds_of(report, stack_of(sentence))
    ratio = stream[sentence["id_ratio"]]["update_ratio"]["median"]
    cosine = stream[sentence["id_cosine"]]["cosine"]["median"]
    sentence.must_agree(ratio=ratio, cosine=cosine)
    assert is_largest(ratio, [stream[id]["update_ratio"]["median"] for id in adds])
    assert is_smallest(cosine, [stream[id]["cosine"]["median"] for id in adds])


@claim(
    _STREAM,
    "Mean cosine between tokens of one sequence, its first included: {first} after the first add, "
    "{last} after the last ({one}: all tokens have one direction)",
)
def check_token_cosine(sentence: Sentence, report: Json) -> None:
    stream = report["measurements"]["stream"]
    cosines = numbers_of(stream[id]["token_cosine"] for id in adds_of(report, stack_of(sentence)))
    sentence.must_agree(first=cosines[0], last=cosines[-1], one=1)


@claim(
    _STREAM,
    "Largest writes into the last stream value x_L, as shares of the energy (and signed, along "
    "x_L) of all writes and the input, mean over tokens {one} to {tokens} of sequence {zero}, "
    "run up to there: {list_parts}.",
)
def check_contributions(sentence: Sentence, report: Json) -> None:
    stack = stack_of(sentence)
    stream = report["measurements"]["stream"]
    shares = {
        id: stream[id]["contribution"]
        for id in adds_of(report, stack)
        if stream[id]["contribution"] is not None
    }
    start = report["measurements"]["growth"].get(stack, {}).get("initial_contribution")
    parts = re.findall(r"(the stack's input|\S+) (\S+) \((\S+)\)(?:, |$)", sentence["list_parts"])
    writers = [part for part in parts if part[0] != "the stack's input"]
    ranked = sorted((share["energy"] for share in shares.values()), reverse=True)
    assert [shares[id]["energy"] for id, _, _ in writers] == ranked[: len(writers)] and writers
    for id, energy, signed in parts:
        share = start if id == "the stack's input" else shares[id]
        assert agrees_with(energy, share["energy"]), (id, energy, share)
        assert agrees_with(signed, share["signed"]), (id, signed, share)
    sentence.must_agree(tokens=next(iter(shares.values()))["tokens"], one=1, zero=0)
    error = report["measurements"]["closure"].get(stack, {}).get("max_rel_error", math.inf)
    if start is not None and error < 1e-3:
        for kind in ("energy", "signed"):
            total = math.fsum([start[kind], *(share[kind] for share in shares.values())])
            assert total == pytest.approx(1, abs=0.02)  # half precision absorbs


@claim(
    _STREAM,
    "Block influence (mean of {one} - cos(x_in, x_out) over tokens {start} to {tokens} of sequence "
    "{zero}, run up to there): {least} (layer {first}, smallest) to {most} (layer {second}, "
    "largest)",
)
def check_influence(sentence: Sentence, report: Json) -> None:
    influences = {
        each["layer"]: each["block_influence"]
        for each in layers_of(report, stack_of(sentence))
        if each["block_influence"] is not None
    }
    least, most = influences[int(sentence["first"])], influences[int(sentence["second"])]
    assert (least, most) == (min(influences.values()), max(influences.values()))
    (tokens,) = {each["tokens"] for each in layers_of(report, stack_of(sentence))}
    sentence.must_agree(least=least, most=most, tokens=tokens - 1, one=1, start=0, zero=0)


@claim(
    _STREAM,
    "Effective rank of tokens {one} to {tokens} of sequence {zero}, run up to there: {first} "
    "after layer {first_layer}, {last} after layer {last_layer} (stable rank {stable})",
)
def check_rank(sentence: Sentence, report: Json) -> None:
    layers = [
        each for each in layers_of(report, stack_of(sentence)) if each["effective_rank"] is not None
    ]
    sentence.must_agree(
        tokens=layers[-1]["tokens"] - 1,
        one=1,
        zero=0,
        first=layers[0]["effective_rank"],
        first_layer=layers[0]["layer"],
        last=layers[-1]["effective_rank"],
        last_layer=layers[-1]["layer"],
        stable=layers[-1]["stable_rank"],
    )


@claim(_STREAM, "Update ratio × √depth, second half: {value} ({one}: independent, equal updates)")
def check_scaled_ratio(sentence: Sentence, report: Json) -> None:
    stream = report["measurements"]["stream"]
    ratios = [
        stream[id]["update_ratio"]["median"] * math.sqrt(depth)
        for depth, id in enumerate(adds_of(report, stack_of(sentence)))
    ]
    later = sorted(ratios[len(ratios) // 2 :])
    middle = (later[(len(later) - 1) // 2] + later[len(later) // 2]) / 2
    growth = report["measurements"]["growth"][stack_of(sentence)]
    assert growth["update_ratio_sqrt_depth"] == pytest.approx(middle, rel=1e-9)
    sentence.must_agree(value=middle, one=1)


@claim(_STREAM, "Last hidden state: rms {rms}, max |value| {largest}")
def check_head_input(sentence: Sentence, report: Json) -> None:
    head = report["measurements"]["head_input"]
    sentence.must_agree(rms=head["rms"], largest=head["max_abs"])


@claim(
    _STREAM,
    "Growth with depth: last add over first {total} (mean over tokens without the first of each "
    "sequence[[; of the {id_sums} before their norms, whose outputs the layers receive]])"
    "[[; at random initialisation {fresh} (one seed, up to {limit} tokens of sequence "
    "{sequence})]]",
)
def check_growth(sentence: Sentence, report: Json) -> None:
    stack = stack_of(sentence)
    growth = report["measurements"]["growth"][stack]
    sentence.must_agree(total=growth["total"])
    is_normed = placement_of(report, stack) in ("post", "deepnorm")
    assert sentence.holds("id_sums") == is_normed
    assert not (is_normed and sentence.holds("fresh"))
    if sentence.holds("fresh"):
        sentence.must_agree(fresh=growth["init_total"], limit=64, sequence=0)


@claim(_STREAM, "The update of {id_add} starts the stream; behind it {behind}")
def check_start(sentence: Sentence, report: Json) -> None:
    growth = report["measurements"]["growth"][stack_of(sentence)]
    assert growth["start"] == sentence["id_add"]
    sentence.must_agree(behind=growth["total_after_start"])
    assert growth["range"] >= growth["total_after_start"] * (1 - 1e-9)


@claim(_STREAM, "Phases: {list_phases}.")
def check_phases(sentence: Sentence, report: Json) -> None:
    phases = report["measurements"]["growth"][stack_of(sentence)]["phases"]
    shown = re.findall(
        r"(?:a jump of (\S+?), )?(\S+) per add in adds? (\d+)(?:-(\d+))?",
        sentence["list_phases"],
    )
    assert len(shown) == len(phases)
    for (jump, factor, first, last), phase in zip(shown, phases, strict=True):
        assert agrees_with(factor, phase["factor"]), (factor, phase)
        assert (int(first), int(last or first)) == (phase["first"], phase["last"])
        assert not jump or agrees_with(jump, phase["step"]), (jump, phase)


@claim(_STREAM, "Leaps: {list_leaps}.")
def check_leaps(sentence: Sentence, report: Json) -> None:
    leaps = {
        leap["add"]: leap["factor"]
        for leap in report["measurements"]["growth"][stack_of(sentence)]["leaps"]
    }
    shown = re.findall(r"(\S+×) at (\S+?)(?:,| and \d+ more|$| )", sentence["list_leaps"])
    assert shown
    for factor, id in shown:
        assert agrees_with(factor, leaps[id]), (factor, id, leaps)


@claim(
    _STREAM,
    "Law[[ {list_where}]]: constant, the stream keeps its size[[ (largest norm over smallest: "
    "{ratio})]]",
)
def check_constant(sentence: Sentence, report: Json) -> None:
    growth = report["measurements"]["growth"][stack_of(sentence)]
    assert growth["law"] == "constant"
    if sentence.holds("ratio"):
        sentence.must_agree(ratio=growth["range"])


@claim(
    _STREAM,
    "Law[[ {list_where}]]: {list_form} {rate}[[ per add]][[ the first norm]]"
    "[[ ± {error} (standard error)]][[, misfit {misfit} (root mean square)]]"
    "[[; Akaike weight {weight}]]",
)
def check_law(sentence: Sentence, report: Json) -> None:
    growth = report["measurements"]["growth"][stack_of(sentence)]
    assert sentence["list_form"] == _FORMS[growth["law"]]
    values = {
        "rate": growth["rate"],
        "error": growth["rate_error"],
        "misfit": growth["misfit"],
        "weight": growth["confidence"],
    }
    sentence.must_agree(**{name: values[name] for name in values if sentence.holds(name)})


@claim(
    _STREAM,
    "Mean stream norm of first tokens over that of the others: up to {ratio} at {id_add} "
    "(typical of attention sinks)",
)
def check_first_tokens(sentence: Sentence, report: Json) -> None:
    stream = report["measurements"]["stream"]
    ratios = {id: stream[id]["sink_ratio"] for id in adds_of(report, stack_of(sentence))}
    assert is_largest(ratios[sentence["id_add"]], numbers_of(ratios.values()))
    sentence.must_agree(ratio=ratios[sentence["id_add"]])
