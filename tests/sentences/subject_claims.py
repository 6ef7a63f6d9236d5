"""What is written about the subject, its tensors and stacks, and how many findings there are."""

from __future__ import annotations

import re
from collections import Counter

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.report_values import ROOT

_SUBJECT = r""
_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


@claim(
    _SUBJECT,
    "model: {list_class}, {parameters} parameters, {id_dtype} on {id_device}, {size} {id_unit}",
)
def check_model(sentence: Sentence, report: Json) -> None:
    subject = report["subject"]
    size = subject["parameters"] * _BYTES[sentence["id_dtype"]]
    unit = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[sentence["id_unit"]]
    sentence.must_agree(parameters=subject["parameters"], size=size / unit)


@claim(_SUBJECT, "inputs: {list_kind}: {sequences} sequence[[s]], {tokens} token[[s]]")
def check_inputs(sentence: Sentence, report: Json) -> None:
    inputs = report["subject"]["probe"]
    sentence.must_agree(sequences=inputs["sequences"], tokens=inputs["tokens"])


@claim(
    _SUBJECT,
    "weights: {tensors} tensor[[s]], [[{nonfinite} value[[s]] NOT FINITE]][[all values "
    "finite]]; stored {list_stored}[[; {empty} empty tensor[[s]] (0 elements): {list_empty}]]"
    "[[; all {gains} gains exactly 1: untrained, or merged into the next weights]]$$",
)
def check_weights(sentence: Sentence, report: Json) -> None:
    weights = report["measurements"]["weights"]
    sentence.must_agree(tensors=weights["tensors"])
    stored = {
        dtype: int(count.replace(",", ""))
        for count, dtype in re.findall(r"(\S+) as (\w+)", sentence["list_stored"])
    }
    assert stored == weights["dtypes"] and sum(stored.values()) == weights["tensors"]
    assert sentence.holds("nonfinite") == (weights["nonfinite"] > 0)
    if sentence.holds("nonfinite"):
        sentence.must_agree(nonfinite=weights["nonfinite"])
    assert sentence.holds("empty") == bool(weights["empty"])
    if sentence.holds("empty"):
        sentence.must_agree(empty=len(weights["empty"]))
        assert sentence["list_empty"].startswith(", ".join(weights["empty"][:3]))
    gains = [n["gain"] for n in report["architecture"]["norms"] if n["gain"] is not None]
    is_unit = all(
        (g["min_abs"], g["max_abs"], g["negatives"], g["nonfinite"]) == (1, 1, 0, 0) for g in gains
    )
    is_said = report["subject"]["mode"] == "run" and is_unit and len(gains) > 1
    assert sentence.holds("gains") == is_said
    if sentence.holds("gains"):
        sentence.must_agree(gains=len(gains))


@claim(r"Findings", "Findings  {list_counts}")
def check_severities(sentence: Sentence, report: Json) -> None:
    if sentence["list_counts"] == "none":
        assert not report["findings"]
        return
    shown = re.findall(r"(\d+) (error|warning|info)s?", sentence["list_counts"])
    counts = Counter(each["severity"] for each in report["findings"])
    assert {severity: int(many) for many, severity in shown} == dict(counts)
    assert int(sum(counts.values())) == len(report["findings"])


@claim(
    r"First non-finite value",
    "! {id_operation}: {many} {id_kind} value[[s]] at {id_site}[[, layer {layer}]][[, {id_line}]]",
)
def check_first_nonfinite(sentence: Sentence, report: Json) -> None:
    first = report["measurements"]["first_nonfinite"]
    assert (sentence["id_operation"], sentence["id_kind"]) == (first["operation"], first["kind"])
    sentence.must_agree(many=first["count"])
    if sentence.holds("layer"):
        sentence.must_agree(layer=first["layer"])


@claim(r"First non-finite value", "{id_name}: {low} to {high}, [[all finite]][[{lost} not finite]]")
def check_operand(sentence: Sentence, report: Json) -> None:
    operands = report["measurements"]["first_nonfinite"]["operands"]
    (operand,) = (each for each in operands if each["name"] == sentence["id_name"])
    sentence.must_agree(low=operand["min"], high=operand["max"])
    assert sentence.holds("lost") == (operand["nonfinite"] > 0)
    if sentence.holds("lost"):
        sentence.must_agree(lost=operand["nonfinite"])


@claim(
    r"Flagged tensors",
    "{id_name} [{list_shape}], {list_dtype}: max |w| {largest}, {zeros} zero[[s]][[, {lost} "
    "NOT FINITE]][[ (first at [{first}])]]",
)
def check_flagged(sentence: Sentence, report: Json) -> None:
    flagged = report["measurements"]["weights"]["flagged"]
    (tensor,) = (each for each in flagged if each["name"] == sentence["id_name"])
    assert sentence["list_shape"] == ", ".join(map(str, tensor["shape"]))
    sentence.must_agree(largest=tensor["max_abs"], zeros=tensor["zeros"])
    if sentence.holds("lost"):
        sentence.must_agree(lost=tensor["nonfinite"], first=tensor["first_nonfinite"][0])


@claim(r"Coverage", "{id_module}, {id_line}, [{list_shape}]: {list_why}")
def check_unexplained(sentence: Sentence, report: Json) -> None:
    adds = report["coverage"]["unexplained_adds"]
    assert any(
        (each["module"], ", ".join(map(str, each["shape"])))
        == (sentence["id_module"], sentence["list_shape"])
        for each in adds
    )


@claim(r"Stacks", "Stacks  {norms} norm[[s]], {adds} residual add[[s]]")
def check_stacks(sentence: Sentence, report: Json) -> None:
    architecture = report["architecture"]
    sentence.must_agree(norms=len(architecture["norms"]), adds=len(architecture["residual_adds"]))


@claim(
    r"",
    "layers: {layers} of width {width}; per layer {adds} residual add[[s]] and {norms} norm[[s]]",
)
def check_layers(sentence: Sentence, report: Json) -> None:
    stack = _stack_of_part(sentence, report)
    sentence.must_agree(
        layers=stack["layers"],
        width=stack["width"],
        adds=stack["residual_adds_per_layer"],
        norms=stack["norms_per_layer"],
    )


@claim(r"", "norms: {list_counts}; q/k norms")
def check_roles(sentence: Sentence, report: Json) -> None:
    stack = _stack_of_part(sentence, report)
    roles = Counter(
        norm["role"] for norm in report["architecture"]["norms"] if norm["stack"] == stack["id"]
    )
    shown = {
        role: int(many)
        for many, role in re.findall(r"(\d+) (\S+?)(?:,|$|;)", sentence["list_counts"])
    }
    assert shown == dict(roles)


def _stack_of_part(sentence: Sentence, report: Json) -> Json:
    name = sentence.heading.split("  ")[0]
    id = "" if name == ROOT else name
    (stack,) = (each for each in report["architecture"]["stacks"] if each["id"] == id)
    return dict(stack)
