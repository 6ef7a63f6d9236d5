"""What the messages of findings say of norms, parameters and coverage."""

from __future__ import annotations

import math

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.findings import check_places, finding_of, norm_of

_ROWS = "(median over tokens, threshold {threshold})"


@claim(r"ND", "value: {value}, threshold {threshold}")
def check_value(sentence: Sentence, report: Json) -> None:
    code = sentence.heading.split()[0]
    pairs = [
        (each["value"], each["threshold"]) for each in report["findings"] if each["code"] == code
    ]
    for value, threshold in pairs:
        try:
            sentence.must_agree(value=value, threshold=threshold)
        except AssertionError:
            continue
        return
    raise AssertionError(f"{sentence.text!r} is of none of {pairs}")


@claim(r"ND003", "{many} parameters {list_kind}: {list_names} and {more} more")
def check_parameters_of_another_model(sentence: Sentence, report: Json) -> None:
    ids = finding_of(sentence, report)["ids"]
    shown = sentence["list_names"].split(", ")
    assert shown == ids[:3]
    sentence.must_agree(many=len(ids), more=len(ids) - len(shown))


@claim(r"ND001", "{many} norms belong to no stack: {list_names} and {more} more")
def check_norms_of_no_stack(sentence: Sentence, report: Json) -> None:
    ids, shown = report["coverage"]["unexplained_norms"], sentence["list_names"].split(", ")
    assert shown == ids[: len(shown)]
    sentence.must_agree(many=len(ids), more=len(ids) - len(shown))


@claim(
    r"ND002",
    "x_in + Σ u differs from x_out, largest in layer {layer}: relative error {error} "
    "(threshold {threshold}) at {id_stack}",
)
def check_closure_message(sentence: Sentence, report: Json) -> None:
    closure = report["measurements"]["closure"][sentence["id_stack"]]
    finding = finding_of(sentence, report)
    sentence.must_agree(
        layer=closure["layer"], error=closure["max_rel_error"], threshold=finding["threshold"]
    )


@claim(
    r"ND002",
    "replay differs at {many} site[[s]]: relative error {error} (threshold {threshold}) at "
    "{list_places}, worst at {id_site}",
)
def check_replay_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    replay = report["measurements"]["replay"]
    errors = [replay[id]["max_rel_error"] for id in finding["ids"]]
    assert replay[sentence["id_site"]]["max_rel_error"] == max(errors)
    sentence.must_agree(many=len(errors), error=max(errors), threshold=finding["threshold"])
    check_places(sentence["list_places"], finding, report)


@claim(
    r"ND002",
    "[[the sum of squares at {id_sum} reaches {sum}, above {largest}, the largest float16]]"
    "[[the mean square at {id_mean} is {mean} and becomes {computed} in float16, whose smallest "
    "step is {step}]]; {many} norm[[s]] with this statistic in float16, {list_places}: replayed so "
    "the relative error at {id_site} is {half}, replayed in float64 it is {error} "
    "(threshold {threshold})",
)
def check_half_statistic(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    replay = report["measurements"]["replay"][sentence["id_site"]]
    statistic = replay["half_statistic"]
    sentence.must_agree(
        many=len(finding["ids"]),
        half=statistic["max_rel_error"],
        error=replay["max_rel_error"],
        threshold=finding["threshold"],
    )
    if sentence.holds("sum"):
        sentence.must_agree(sum=statistic["value"], largest=65504)
        assert statistic["value"] > 65504
    else:
        sentence.must_agree(mean=statistic["value"], computed=statistic["computed"], step=2.0**-24)
    assert statistic["max_rel_error"] <= finding["threshold"] < replay["max_rel_error"]


@claim(
    r"ND101",
    "{id_stack} is post-norm, {list_drawing}, with {layers} layers (threshold {threshold})",
)
def check_depth_message(sentence: Sentence, report: Json) -> None:
    (stack,) = (s for s in report["architecture"]["stacks"] if s["id"] == sentence["id_stack"])
    assert stack["placement"] == "post" and stack["drawing"] == sentence["list_drawing"]
    finding = finding_of(sentence, report)
    sentence.must_agree(layers=stack["layers"], threshold=finding["threshold"])


@claim(
    r"ND102",
    "no norm follows {id_stack} ({layers} layers, {list_placement}): {list_reader}, rms {rms}",
)
def check_final_norm_message(sentence: Sentence, report: Json) -> None:
    (stack,) = (s for s in report["architecture"]["stacks"] if s["id"] == sentence["id_stack"])
    assert stack["final_norm"] is None
    head = report["measurements"]["head_input"]
    sentence.must_agree(layers=stack["layers"], rms=head["rms"])


@claim(
    r"ND104",
    "{list_place} is {list_odd}, the other {others} layers {id_placement} (share {share}, "
    "threshold {threshold})",
)
def check_mixed_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    others = int(sentence["others"])
    placements: dict[int, set[str]] = {}
    for add in report["architecture"]["residual_adds"]:
        placements.setdefault(add["layer"], set()).add(add["placement"])
    usual = [layer for layer, kinds in placements.items() if kinds == {sentence["id_placement"]}]
    assert len(usual) == others
    sentence.must_agree(
        others=others,
        share=(len(placements) - others) / len(placements),
        threshold=finding["threshold"],
    )


@claim(r"ND105", "at {many} norm[[s]], {list_places}:")
def check_batch_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    sentence.must_agree(many=len(finding["ids"]))
    check_places(sentence["list_places"], finding, report)


@claim(
    r"ND106",
    "a norm over {features} features removes {share} of all directions (threshold "
    "{threshold}) at {many} norms, {list_places}; worst {id_norm} ({id_kind})",
)
def check_narrow_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    norm = norm_of(report, sentence["id_norm"])
    assert norm["kind"] == sentence["id_kind"] and norm["kind"] in ("layernorm", "rmsnorm")
    removed = 2 if norm["kind"] == "layernorm" else 1
    sentence.must_agree(
        features=norm["features"],
        share=removed / norm["features"],
        threshold=finding["threshold"],
        many=len(finding["ids"]),
    )


@claim(
    r"ND107",
    "{id_norm} reduces axis {axis} of ({list_shape}), {elements} elements; the stream has "
    "{width} features",
)
def check_axis_message(sentence: Sentence, report: Json) -> None:
    norm = norm_of(report, sentence["id_norm"])
    (axis,) = norm["axes"]
    assert sentence["list_shape"] == ", ".join(map(str, norm["shape"]))
    (stack,) = (s for s in report["architecture"]["stacks"] if s["id"] == norm["stack"])
    sentence.must_agree(axis=axis, elements=norm["shape"][axis], width=stack["width"])


@claim(r"ND103", "normalised {times} times in a row: {list_norms}:")
def check_double_norm_message(sentence: Sentence, report: Json) -> None:
    names = sentence["list_norms"].split(", then ")
    assert set(names) <= {norm["id"] for norm in report["architecture"]["norms"]}
    sentence.must_agree(times=len(names))


@claim(
    r"ND203",
    "{elements} element[[s]] of {tensors} tensor[[s]] are not finite: {id_name} {many} of "
    "{all}[[, first at [{index}]]]",
)
def check_not_finite_message(sentence: Sentence, report: Json) -> None:
    flagged = [each for each in report["measurements"]["weights"]["flagged"] if each["nonfinite"]]
    (tensor,) = (each for each in flagged if each["name"] == sentence["id_name"])
    sentence.must_agree(
        elements=sum(each["nonfinite"] for each in flagged),
        tensors=len(flagged),
        many=tensor["nonfinite"],
        all=math.prod(tensor["shape"]),
    )
    if sentence.holds("index"):
        sentence.must_agree(index=tensor["first_nonfinite"][0])
