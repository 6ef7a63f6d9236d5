"""What the messages of findings say of the stream, of Jacobians, gradients and number formats."""

from __future__ import annotations

import math

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.findings import add_values, check_places, finding_of, norm_of, norm_values
from tests.sentences.report_values import adds_of, layers_of

_ROWS = "(median over tokens, threshold {threshold})"
_SAMPLE = "(median over {sample}[[ sampled]] token[[s]], threshold {threshold})"


@claim(
    r"ND304",
    "max |y| is {y} in channel {channel} at position {position} of sequence {sequence} "
    "(threshold {threshold}), {times} times the median (threshold {second}), at {id_add}[[, "
    "and at {many} adds in all, {list_places}]][[, up to {largest} at {id_largest}]]$",
)
def check_massive_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    add = add_values(report, sentence["id_add"])
    sentence.must_agree(
        y=add["max_abs"],
        channel=add["max_channel"],
        position=add["max_token"]["position"],
        sequence=add["max_token"]["sequence"],
        threshold=finding["threshold"],
        times=add["max_abs"] / add["median_abs"],
    )
    peaks = [add_values(report, id)["max_abs"] for id in finding["ids"]]
    if sentence.holds("many"):
        sentence.must_agree(many=len(finding["ids"]))
        check_places(sentence["list_places"].split(", up to")[0], finding, report)
    if sentence.holds("largest"):
        assert add_values(report, sentence["id_largest"])["max_abs"] == max(peaks)
        sentence.must_agree(largest=max(peaks))
    else:
        assert add["max_abs"] == max(peaks)


@claim(
    r"ND402", f"||u|| / ||x|| is {{ratio}} {_ROWS} at {{list_places}}[[; smallest at {{id_add}}]]"
)
def check_silent_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    ratios = {id: add_values(report, id)["update_ratio"]["median"] for id in finding["ids"]}
    sentence.must_agree(ratio=min(ratios.values()), threshold=finding["threshold"])
    assert max(ratios.values()) < finding["threshold"]
    if sentence.holds("id_add"):
        assert ratios[sentence["id_add"]] == min(ratios.values())


@claim(
    r"ND403",
    f"||u|| / ||x|| is {{ratio}} at {{id_add}} {_ROWS}: x holds {{share}} of the energy of the sum",
)
def check_overwriting_message(sentence: Sentence, report: Json) -> None:
    add = add_values(report, sentence["id_add"])
    ratio = add["update_ratio"]["median"]
    sentence.must_agree(
        ratio=ratio,
        threshold=finding_of(sentence, report)["threshold"],
        share=1 / (1 + ratio**2),
    )


@claim(
    r"ND404",
    f"||y|| / ||x|| is {{ratio}} at {{id_add}} {_ROWS}, cos(x, u) is {{cosine}}, {{bits}} "
    f"bits of every value are lost",
)
def check_cancelling_message(sentence: Sentence, report: Json) -> None:
    add = add_values(report, sentence["id_add"])
    ratio = add["out_ratio"]["median"]
    sentence.must_agree(
        ratio=ratio,
        threshold=finding_of(sentence, report)["threshold"],
        cosine=add["cosine"]["median"],
        bits=-math.log2(ratio),
    )


@claim(
    r"ND405",
    "the mean cosine between tokens is {cosine} at the end of {id_stack} (threshold "
    "{threshold}), above it from {id_add} (layer {layer}) on; effective rank {rank} of "
    "{tokens} tokens",
)
def check_collapse_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    adds = adds_of(report, sentence["id_stack"])
    cosines = [add_values(report, id)["token_cosine"] for id in adds]
    last = layers_of(report, sentence["id_stack"])[-1]
    first = adds.index(sentence["id_add"])
    assert all(cosine > finding["threshold"] for cosine in cosines[first:])
    assert first == 0 or cosines[first - 1] <= finding["threshold"]
    layers = {each["id"]: each["layer"] for each in report["architecture"]["residual_adds"]}
    sentence.must_agree(
        cosine=cosines[-1],
        threshold=finding["threshold"],
        layer=layers[sentence["id_add"]],
        rank=last["effective_rank"],
        tokens=last["tokens"],
    )


@claim(
    r"ND406",
    "{repeated} layers of {all} of {id_stack} repeat another layer exactly: {list_pairs} "
    "({pairs} pairs)",
)
def check_duplicates_message(sentence: Sentence, report: Json) -> None:
    (stack,) = (s for s in report["architecture"]["stacks"] if s["id"] == sentence["id_stack"])
    duplicates = report["measurements"]["duplicates"][sentence["id_stack"]]
    sentence.must_agree(
        repeated=len({max(pair) for pair in duplicates}),
        all=stack["layers"],
        pairs=len(duplicates),
    )
    for pair in duplicates:
        assert " and ".join(map(str, sorted(pair))) in sentence["list_pairs"]


def typical_growth(report: Json, stack: str) -> float:
    """Last over first in the mean and in the median token, the smaller one, apart from leaps."""
    growth = report["measurements"]["growth"][stack]
    sizes = [add_values(report, id)["out_norm"]["median"] for id in adds_of(report, stack)]
    leaps = math.prod(leap["factor"] for leap in growth["leaps"])
    return min(growth["total"], sizes[-1] / sizes[0]) / max(leaps, 1)


@claim(
    r"ND401",
    "||y|| in {id_stack} grows by a factor of {rate} per add (threshold {threshold}), "
    "{total} in total[[{list_apart} from leaps]] (of mean and median over tokens the smaller) over "
    "{adds} adds (threshold {second}); "
    "[[law {id_law}, Akaike weight {weight}]][[the mean factor, the law is {id_none}]]",
)
def check_growth_message(sentence: Sentence, report: Json) -> None:
    growth = report["measurements"]["growth"][sentence["id_stack"]]
    adds = adds_of(report, sentence["id_stack"])
    total = typical_growth(report, sentence["id_stack"])
    assert sentence.holds("list_apart") == bool(growth["leaps"])
    is_fitted = growth["law"] == "geometric"
    assert (sentence.holds("id_law"), sentence.holds("id_none")) == (is_fitted, not is_fitted)
    assert growth["law"] == sentence["id_law" if is_fitted else "id_none"]
    if is_fitted:
        sentence.must_agree(weight=growth["confidence"])
    sentence.must_agree(
        rate=growth["rate"] if is_fitted else total ** (1 / (len(adds) - 1)),
        threshold=finding_of(sentence, report)["threshold"],
        total=total,
        adds=len(adds),
    )


@claim(
    r"ND501",
    f"kappa {{kappa}} {_SAMPLE} at {{many}} norms, {{list_places}}; worst {{id_norm}}, "
    f"sigma_max {{sigma}}",
)
@claim(r"ND501", f"kappa {{kappa}} {_SAMPLE} at {{id_norm}}, sigma_max {{sigma}}")
def check_kappa_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    kappas = [each["jacobian"]["kappa"]["median"] for each in norm_values(report, finding["ids"])]
    (values,) = norm_values(report, [sentence["id_norm"]])
    assert values["jacobian"]["kappa"]["median"] == max(kappas)
    sentence.must_agree(
        kappa=max(kappas),
        threshold=finding["threshold"],
        sigma=values["jacobian"]["sigma_max"]["median"],
        sample=values["jacobian"]["sample"],
    )
    if sentence.parts.get("many"):
        sentence.must_agree(many=len(finding["ids"]))
        check_places(sentence["list_places"], finding, report)


@claim(
    r"ND502",
    f"sigma_max of the norm Jacobian is {{sigma}} {_SAMPLE} at {{id_norm}}: m2 {{m2}}, eps {{eps}}",
)
def check_amplifying_message(sentence: Sentence, report: Json) -> None:
    (values,) = norm_values(report, [sentence["id_norm"]])
    sentence.must_agree(
        sigma=values["jacobian"]["sigma_max"]["median"],
        sample=values["jacobian"]["sample"],
        threshold=finding_of(sentence, report)["threshold"],
        m2=values["input_var"]["median"],
        eps=norm_of(report, sentence["id_norm"])["eps"],
    )


@claim(
    r"ND504",
    "attention logits up to {bound} are allowed by the gains of the q and k norms (threshold "
    "{threshold}), at {many} attentions, {list_places}",
)
def check_logit_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    bounds = report["measurements"]["precision"]["logit_bounds"]
    sentence.must_agree(
        bound=max(each["bound"] for each in bounds.values()),
        threshold=finding["threshold"],
        many=len(finding["ids"]),
    )


@claim(
    r"ND60[12]",
    "||dL/dy|| in {id_stack} {id_verb} by a factor of {rate} per layer from the last layer "
    "to the first (threshold {threshold}), {total} in total over {layers} layers (threshold "
    "{second})[[; {share} times the growth of ||y||, {growth} (threshold {third})]]",
)
def check_gradient_message(sentence: Sentence, report: Json) -> None:
    trend = report["measurements"]["gradients"]["trends"][sentence["id_stack"]]
    (stack,) = (s for s in report["architecture"]["stacks"] if s["id"] == sentence["id_stack"])
    sign = {"grows": -1, "shrinks": 1}[sentence["id_verb"]]
    sentence.must_agree(
        rate=trend["rate"] ** sign,
        threshold=finding_of(sentence, report)["threshold"],
        total=trend["total"] ** sign,
        layers=stack["layers"],
    )
    if sentence.holds("growth"):
        growth = typical_growth(report, sentence["id_stack"])
        sentence.must_agree(growth=growth, share=1 / trend["total"] / growth, third=30)


@claim(
    r"ND603",
    "clipping at {at} scales every gradient by {factor}: {id_group} holds {share} of the "
    "squared gradient norm, and all other gradients become {times} times smaller than if "
    "clipped alone (threshold {threshold})",
)
def check_clip_message(sentence: Sentence, report: Json) -> None:
    gradients = report["measurements"]["gradients"]
    at, norm = gradients["clipping"]["max_norm"], gradients["global_norm"]
    share = gradients["groups"][sentence["id_group"]]
    others = norm * math.sqrt(1 - share)
    sentence.must_agree(
        at=at,
        factor=at / norm,
        share=share,
        times=min(1.0, at / others) / (at / norm),
        threshold=finding_of(sentence, report)["threshold"],
    )


@claim(
    r"ND504",
    "attention logits up to {logit} are computed (threshold {threshold}), at {many} attentions, "
    "{list_places}",
)
def check_computed_logit_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    logits = report["measurements"]["attention_logits"].values()
    above = [each["max_abs"] for each in logits if each["max_abs"] > finding["threshold"]]
    sentence.must_agree(logit=max(above), threshold=finding["threshold"], many=len(above))
