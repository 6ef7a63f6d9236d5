"""What is written about attention logits."""

from __future__ import annotations

from statistics import median

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.report_values import is_largest

_LOGITS = r"Attention logits"


def _attention(report: Json, id: str) -> Json:
    return dict(report["measurements"]["attention_logits"]["" if id == "model" else id])


@claim(
    _LOGITS,
    "Largest |logit| of {many} attention[[s]], over pairs with a softmax weight above {zero} in "
    "float32: {logit} at sequence {sequence}, head {head}, query {query}, key {key} of "
    "{id_module}; median of its heads {middle}",
)
def check_largest_logit(sentence: Sentence, report: Json) -> None:
    logits = report["measurements"]["attention_logits"]
    largest = _attention(report, sentence["id_module"])
    assert is_largest(largest["max_abs"], [each["max_abs"] for each in logits.values()])
    assert abs(largest["value"]) == largest["max_abs"]
    sentence.must_agree(
        many=len(logits),
        zero=0,
        logit=largest["value"],
        sequence=largest["sequence"],
        head=largest["head"],
        query=largest["query"],
        key=largest["key"],
        middle=largest["median_max"],
    )


@claim(_LOGITS, "Largest weight in a query row: {weight} (median over rows, then over attentions)")
def check_weight(sentence: Sentence, report: Json) -> None:
    logits = report["measurements"]["attention_logits"].values()
    weights = [each["median_weight"] for each in logits if each["median_weight"] is not None]
    sentence.must_agree(weight=median(weights))


@claim(
    _LOGITS,
    "Scale of q . k: {scale} in {many} attention[[s]] of head width {width}; 1/sqrt({same}) is "
    "{usual}",
)
def check_scale(sentence: Sentence, report: Json) -> None:
    logits = report["measurements"]["attention_logits"].values()
    width = int(sentence["width"])
    same = [
        each
        for each in logits
        if each["head_width"] == width
        and each["scale"] is not None
        and f"{each['scale']:.3g}" == f"{float(sentence['scale']):.3g}"
    ]
    sentence.must_agree(many=len(same), scale=same[0]["scale"], same=width, usual=width**-0.5)


@claim(
    _LOGITS, "^{id_module}: {logit} at sequence {sequence}, head {head}, query {query}, key {key}"
)
def check_logit(sentence: Sentence, report: Json) -> None:
    each = _attention(report, sentence["id_module"])
    places = {name: each[name] for name in ("sequence", "head", "query", "key")}
    sentence.must_agree(logit=each["value"], **places)
