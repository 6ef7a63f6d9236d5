"""What the messages of findings say of gains, epsilon and what norms receive."""

from __future__ import annotations

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.findings import check_places, finding_of, norm_of, norm_values

_ROWS = "(median over tokens, threshold {threshold})"
_SAMPLED = "(median over sampled tokens, threshold {threshold})"


@claim(
    r"ND201", "{dead} of {all} gains are dead (share {share}, threshold {threshold}) at {id_norm};"
)
@claim(
    r"ND201", "{dead} of {all} gains are dead (share {share}, threshold {threshold}) at {id_norm}"
)
def check_dead_message(sentence: Sentence, report: Json) -> None:
    norm = norm_of(report, sentence["id_norm"])
    dead = norm["gain"]["dead"]
    finding = finding_of(sentence, report)
    sentence.must_agree(
        dead=dead,
        all=norm["features"],
        share=dead / norm["features"],
        threshold=finding["threshold"],
    )


@claim(
    r"ND202",
    "max |gamma| is {ratio} times the median (threshold {threshold}) at {id_norm}: {largest} "
    "in channel {channel}, median {median}",
)
def check_outlier_gain_message(sentence: Sentence, report: Json) -> None:
    gain = norm_of(report, sentence["id_norm"])["gain"]
    sentence.must_agree(
        ratio=gain["max_abs"] / gain["median_abs"],
        threshold=finding_of(sentence, report)["threshold"],
        largest=gain["max_abs"],
        channel=gain["max_channel"],
        median=gain["median_abs"],
    )


@claim(
    r"ND204",
    "{many} of {all} norms (threshold {threshold}) have many negative gains, {list_places}: "
    "share of negative gains {share}, mean gain {mean} (about {one} is expected), mean "
    "output rms {rms}",
)
def check_negative_gains_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    gains = [norm_of(report, id)["gain"] for id in finding["ids"]]
    features = [norm_of(report, id)["features"] for id in finding["ids"]]
    everywhere = [norm for norm in report["architecture"]["norms"] if norm["gain"] is not None]
    outputs = [each["output_rms"] for each in norm_values(report, finding["ids"])]
    sentence.must_agree(
        many=len(gains),
        all=len(everywhere),
        threshold=finding["threshold"],
        share=sum(gain["negatives"] for gain in gains) / sum(features),
        mean=sum(gain["mean"] for gain in gains) / len(gains),
        one=1,
        rms=sum(outputs) / len(outputs),
    )
    check_places(sentence["list_places"], finding, report)


@claim(
    r"ND204",
    "{many} of {all} norms (threshold {threshold}) have only gains above {one}, "
    "{list_places}: mean gain {mean}, {excess} above {same}",
)
def check_high_gains_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    gains = [norm_of(report, id)["gain"] for id in finding["ids"]]
    assert all(gain["min_abs"] > 1 and not gain["negatives"] for gain in gains)
    mean = sum(gain["mean"] for gain in gains) / len(gains)
    sentence.must_agree(
        many=len(gains), threshold=finding["threshold"], one=1, same=1, mean=mean, excess=mean - 1
    )
    check_places(sentence["list_places"], finding, report)


@claim(
    r"ND205",
    "{id_norm} has epsilon {eps}, the {others} others of its role ({id_role}) have {usual} "
    "(factor {factor}, threshold {threshold})",
)
def check_epsilon_message(sentence: Sentence, report: Json) -> None:
    norm = norm_of(report, sentence["id_norm"])
    others = [
        each["eps"]
        for each in report["architecture"]["norms"]
        if each["role"] == norm["role"] and each["id"] != norm["id"]
    ]
    (usual,) = set(others)
    sentence.must_agree(
        eps=norm["eps"],
        others=len(others),
        usual=usual,
        factor=max(usual / norm["eps"], norm["eps"] / usual),
        threshold=finding_of(sentence, report)["threshold"],
    )


@claim(r"ND301", f"eps / (m2 + eps) is {{share}} {_ROWS} at {{id_norm}}: eps {{eps}}, m2 {{m2}}")
def check_share_message(sentence: Sentence, report: Json) -> None:
    (values,) = norm_values(report, [sentence["id_norm"]])
    eps = norm_of(report, sentence["id_norm"])["eps"]
    sentence.must_agree(
        share=values["eps_share"]["median"],
        threshold=finding_of(sentence, report)["threshold"],
        eps=eps,
        m2=values["input_var"]["median"],
    )


@claim(
    r"ND301",
    f"eps / (m2 + eps) is {{share}} {_ROWS} at {{many}} norms, {{list_places}}",
)
def check_largest_share_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    shares = [each["eps_share"]["median"] for each in norm_values(report, finding["ids"])]
    sentence.must_agree(share=max(shares), threshold=finding["threshold"], many=len(shares))
    check_places(sentence["list_places"], finding, report)


@claim(r"ND301", "worst {id_norm}: eps {eps}, m2 {m2}")
def check_worst_share_message(sentence: Sentence, report: Json) -> None:
    (values,) = norm_values(report, [sentence["id_norm"]])
    eps = norm_of(report, sentence["id_norm"])["eps"]
    sentence.must_agree(eps=eps, m2=values["input_var"]["median"])


@claim(
    r"ND301",
    "epsilon is the larger term at {many} of {tokens} tokens (share {share}, threshold "
    "{threshold}) at {id_norm}: eps {eps}, smallest m2 {m2}",
)
def check_some_tokens_message(sentence: Sentence, report: Json) -> None:
    (values,) = norm_values(report, [sentence["id_norm"]])
    many = values["eps_dominated"] - values["constant"]
    sentence.must_agree(
        many=many,
        tokens=values["tokens"],
        share=many / values["tokens"],
        threshold=finding_of(sentence, report)["threshold"],
        eps=norm_of(report, sentence["id_norm"])["eps"],
        m2=values["input_var"]["min"],
    )


@claim(
    r"ND30[12]",
    "every gain is {one} and every bias {zero}: expected if the model is untrained",
)
def check_initial_state(sentence: Sentence, report: Json) -> None:
    norms = report["architecture"]["norms"]
    gains = [norm["gain"] for norm in norms if norm["gain"] is not None]
    assert all(gain["min_abs"] == gain["max_abs"] == 1 for gain in gains)
    assert not any(gain["negatives"] for gain in gains)
    assert not any(norm["bias_rms"] for norm in norms)
    sentence.must_agree(one=1, zero=0)


@claim(
    r"ND302",
    "{constant} of {tokens} tokens are constant (share {share}, threshold {threshold}) at "
    "{id_norm}",
)
def check_constant_message(sentence: Sentence, report: Json) -> None:
    (values,) = norm_values(report, [sentence["id_norm"]])
    constant = values["constant"] - values["constant_without_input"]
    sentence.must_agree(
        constant=constant,
        tokens=values["tokens"],
        share=constant / values["tokens"],
        threshold=finding_of(sentence, report)["threshold"],
    )


@claim(
    r"ND302",
    "{constant} of {tokens} tokens are constant and made of parameters alone, such as class tokens "
    "that start at zero, at {id_norm}",
)
def check_own_tokens_message(sentence: Sentence, report: Json) -> None:
    (values,) = norm_values(report, [sentence["id_norm"]])
    sentence.must_agree(constant=values["constant_without_input"], tokens=values["tokens"])


@claim(
    r"ND303",
    "the mean over features holds {share} of ||x||^2 (threshold {threshold}), which centring "
    "removes, at {id_norm}[[, and {many} norms in all, {list_places}]]$",
)
def check_mean_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    (values,) = norm_values(report, [sentence["id_norm"]])
    sentence.must_agree(share=values["mean_energy"], threshold=finding["threshold"])
    shares = [each["mean_energy"] for each in norm_values(report, finding["ids"])]
    assert min(shares) > finding["threshold"]
    if sentence.holds("many"):
        sentence.must_agree(many=len(finding["ids"]))
        check_places(sentence["list_places"], finding, report)


@claim(
    r"ND305",
    f"channel {{channel}} holds {{share}} of ||x||^2 {_SAMPLED} at {{id_norm}}[[; as does one "
    f"channel at {{many}} norms in all, {{list_places}}]]$",
)
def check_channel_message(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    (values,) = norm_values(report, [sentence["id_norm"]])
    sentence.must_agree(
        channel=values["dominant_channel"],
        share=values["channel_share"],
        threshold=finding["threshold"],
    )
    shares = [each["channel_share"] for each in norm_values(report, finding["ids"])]
    assert min(shares) > finding["threshold"]
    if sentence.holds("many"):
        sentence.must_agree(many=len(finding["ids"]))
        check_places(sentence["list_places"], finding, report)


@claim(
    r"ND206",
    "the gain lies {ratio} times or more [[below]][[above]] that of the same norm in the other "
    "layers (threshold {threshold}) at {id_norm}: median |gamma| {level}, the [[least]][[largest]] "
    "of the others {nearest}",
)
def check_level_message(sentence: Sentence, report: Json) -> None:
    norm = norm_of(report, sentence["id_norm"])
    same = [
        each["gain"]["median_abs"]
        for each in report["architecture"]["norms"]
        if each["stack"] == norm["stack"] and each["role"] == norm["role"] and each is not norm
    ]
    level = norm["gain"]["median_abs"]
    nearest = min(same, key=lambda value: abs(value - level))
    sentence.must_agree(
        ratio=max(level / nearest, nearest / level),
        threshold=finding_of(sentence, report)["threshold"],
        level=level,
        nearest=nearest,
    )


@claim(
    r"ND207",
    "every gain of all {many} norms is exactly {one} in {id_format}: untrained, or its updates "
    "were below half a step ({step} downwards) and changed nothing",
)
def check_unit_message(sentence: Sentence, report: Json) -> None:
    gains = [n["gain"] for n in report["architecture"]["norms"] if n["gain"] is not None]
    assert all(gain["min_abs"] == gain["max_abs"] == 1 for gain in gains)
    step = {"bfloat16": 2.0**-9, "float16": 2.0**-12}[sentence["id_format"]]
    sentence.must_agree(many=len(gains), one=1, step=step)
