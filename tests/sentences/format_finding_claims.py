"""What the messages of findings say of number formats."""

from __future__ import annotations

import math
import re

import numpy as np

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.findings import add_values, check_places, finding_of, norm_of, norm_values
from tests.sentences.report_values import is_largest, numbers_of
from tests.sentences.shown_numbers import NUMBER, agrees_with

_ROWS = "(median over tokens, threshold {threshold})"


@claim(
    r"ND701",
    "max |value| is {value} ({times} {largest}, the largest {id_format}) at {id_site}[[, "
    "layer {layer}]][[, up to {peak} at {id_peak}]]",
)
def check_overflow_message(sentence: Sentence, report: Json) -> None:
    precision = report["measurements"]["precision"]
    largest = precision["formats"][sentence["id_format"]]["largest"]
    peaks = precision["max_abs"] | {each["id"]: each["value"] for each in precision["inner_peaks"]}
    value = peaks[sentence["id_site"]]
    sentence.must_agree(value=value, times=value / largest, largest=largest)
    if sentence.holds("layer"):
        layers = {each["id"]: each["layer"] for each in report["architecture"]["residual_adds"]}
        if sentence["id_site"] in layers:
            sentence.must_agree(layer=layers[sentence["id_site"]])
    if sentence.holds("peak"):
        sentence.must_agree(peak=peaks[sentence["id_peak"]])
        assert is_largest(
            peaks[sentence["id_peak"]],
            numbers_of(peaks.get(id) for id in finding_of(sentence, report)["ids"]),
        )


@claim(
    r"ND702",
    "max x^{two} is {square} at {id_norm} and overflows in the norm, whose output is {zero} "
    "(the largest float16 is {largest}); {many} norm[[s]], {list_places}",
)
def check_square_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    precision = report["measurements"]["precision"]
    (values,) = norm_values(report, [sentence["id_norm"]])
    assert precision["square_formats"][sentence["id_norm"]] == "float16"
    sentence.must_agree(
        two=2,
        square=precision["max_abs"][sentence["id_norm"]] ** 2,
        zero=values["output_rms"] if values["output_rms"] > 1e-3 else 0,
        largest=65504,
        many=len(finding["ids"]),
    )


@claim(
    r"ND702",
    "max x^{two} is {square} at {id_norm} and would overflow if it is squared in float16 "
    "(the largest float16 is {largest}); {many} norm[[s]], {list_places}",
)
def check_possible_square_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    squares = report["measurements"]["precision"]["max_square"]
    assert is_largest(squares[sentence["id_norm"]], [squares[id] for id in finding["ids"]])
    assert all(squares[id] > 65504 for id in finding["ids"])
    sentence.must_agree(
        two=2, square=squares[sentence["id_norm"]], largest=65504, many=len(finding["ids"])
    )
    check_places(sentence["list_places"], finding, report)


@claim(
    r"ND703",
    "{least} to {most} of the update u is absorbed (x + u = x) in {id_format} (threshold "
    "{threshold}) at {many} adds, {list_places}",
)
def check_absorbed_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    headroom = report["measurements"]["precision"]["formats"][sentence["id_format"]]
    shares = [headroom["absorbed_updates"][id] for id in finding["ids"]]
    sentence.must_agree(
        least=min(shares),
        most=max(shares),
        threshold=finding["threshold"],
        many=len(finding["ids"]),
    )
    check_places(sentence["list_places"], finding, report)


@claim(
    r"ND704",
    "epsilon is {eps}, which [[would round]][[rounds]] to {zero} in float16 (threshold "
    "{threshold}), at {many} norms, {list_places}",
)
def check_underflow_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    epsilons = {norm_of(report, id)["eps"] for id in finding["ids"]}
    assert max(epsilons) <= 2.0**-25
    sentence.must_agree(eps=min(epsilons), zero=0, threshold=2.0**-25, many=len(finding["ids"]))


@claim(
    r"ND706",
    "max |y| is {value} at {id_add} and exceeds {largest}, the largest float16, from {id_first} on",
)
def check_promoted_message(sentence: Sentence, report: Json) -> None:
    sentence.must_agree(value=add_values(report, sentence["id_add"])["max_abs"], largest=65504)
    assert add_values(report, sentence["id_first"])["max_abs"] > 65504


@claim(
    r"ND701",
    "or multiply the embedding and all branch outputs of {id_stack} by {factor} = {two}^{power}, "
    "which its norms cancel[[ (eps share at most {share}; unchanged with epsilon times "
    "{base}^{exponent})]]",
)
def check_scaling_advice(sentence: Sentence, report: Json) -> None:
    formats = report["measurements"]["precision"]["formats"]
    remedy = formats["float16"]["remedies"][sentence["id_stack"]]
    power = math.log2(remedy["factor"])
    sentence.must_agree(factor=remedy["factor"], two=2, power=power)
    if sentence.holds("share"):
        sentence.must_agree(share=remedy["eps_share"]["max"], base=2, exponent=2 * power)


@claim(
    r"ND704",
    "set layer_norm_eps, rms_norm_eps or layer_norm_epsilon in config.json to {high} or {low}",
)
def check_epsilon_advice(sentence: Sentence, report: Json) -> None:
    """Both are representable in float16, whose smallest number is 2^-24."""
    sentence.must_agree(high=1e-5, low=1e-6)
    assert np.float16(1e-6) > 0


@claim(r"ND204", "stores w of {one} + w, add {another} to every norm weight")
def check_offset_advice(sentence: Sentence, report: Json) -> None:
    sentence.must_agree(one=1, another=1)


@claim(
    r"ND705",
    "{many} [[nans]][[infs]] first produced by {id_operation} at {id_site} ({id_line}), from "
    "{list_operands}$",
)
def check_origin_message(sentence: Sentence, report: Json) -> None:
    first = report["measurements"]["first_nonfinite"]
    assert first["operation"] == sentence["id_operation"]
    sentence.must_agree(many=first["count"])
    operands = {each["name"]: each for each in first["operands"]}
    why = sentence["list_operands"].rpartition(": ")[2]
    if "element" in why:
        assert int(re.findall(r"\((\d+) elements?\)$", why)[0]) == first["cause"]["elements"]
        assert first["cause"]["elements"] <= first["count"]
    shown = re.findall(
        rf"(\S+) in \[({NUMBER}), ({NUMBER})\](?:, (\d+) not finite)?", sentence["list_operands"]
    )
    assert shown
    for name, low, high, lost in shown:
        operand = operands[name]
        assert agrees_with(low, operand["min"]) and agrees_with(high, operand["max"]), operand
        assert int(lost or 0) == operand["nonfinite"]


@claim(r"ND705", "the exact result is {exact}, above {largest}, the largest float16")
def check_exact_message(sentence: Sentence, report: Json) -> None:
    first = report["measurements"]["first_nonfinite"]
    sentence.must_agree(exact=first["exact_max"], largest=65504)
    assert first["exact_max"] > 65504


@claim(r"ND705", "in float32 the stream reaches {value} ({times} the largest) at {id_site}")
def check_float32_message(sentence: Sentence, report: Json) -> None:
    peak = report["measurements"]["first_nonfinite"]["in_float32"]
    assert sentence["id_site"] == peak["site"]
    sentence.must_agree(value=peak["max_abs"], times=peak["max_abs"] / 65504)
