"""What is written about one sequence, token by token."""

from __future__ import annotations

import math
from statistics import median

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.findings import norm_of
from tests.sentences.report_values import ROOT

_SEQUENCE = r"Sequence \d"
_OUTLIER, _MASSIVE = 4.0, 1000.0


@claim(_SEQUENCE, "^Sequence {sequence}  {list_text}$$")
def check_sequence(sentence: Sentence, report: Json) -> None:
    trace = _trace_of(sentence, report)
    sentence.must_agree(sequence=trace["sequence"])
    start, cut, end = sentence["list_text"].partition("[.. ")
    assert trace["text"].startswith(start) and len(trace["text"]) >= len(start)
    if cut:
        left_out, _, end = end.partition(" characters ..]")
        assert len(trace["text"]) == len(start) + int(left_out) + len(end)
        assert trace["text"].endswith(end)
    else:
        assert trace["text"] == start


@claim(
    _SEQUENCE,
    "No outlier token: largest stream norm {ratio} × the median token's, at token {position} \""
    '{list_token}"[[ (special)]].$',
)
def check_no_outlier(sentence: Sentence, report: Json) -> None:
    trace = _trace_of(sentence, report)
    peaks = peaks_of(trace)
    largest = max(ratio for ratio, _ in peaks)
    assert largest < _OUTLIER
    sentence.must_agree(ratio=largest)
    assert peaks[int(sentence["position"])][0] == largest
    _check_token(sentence, trace)


@claim(
    _SEQUENCE,
    'Outlier token {position} "{list_token}"[[ (special)]], after {some} of {adds} '
    "add[[s]]: stream norm {norm}[[ ({ratio} × median token)]] at {id_add}[[; max |y| {y} in "
    "channel {channel}[[, a massive activation ({times} × median)]]]].[[ First tokens "
    "often serve as attention sinks.]]$",
)
def check_outlier(sentence: Sentence, report: Json) -> None:
    trace = _trace_of(sentence, report)
    position, site = int(sentence["position"]), sentence["id_add"]
    norms = traced_norms(trace)
    ratios = {id: norm_ratio(norms[id], position) for id in norms}
    assert ratios[site] == max(ratios.values())
    sentence.must_agree(
        some=sum(ratio >= _OUTLIER for ratio in ratios.values()),
        adds=len(norms),
        norm=norms[site][position],
    )
    assert sentence.holds("ratio") == math.isfinite(ratios[site])
    if sentence.holds("ratio"):
        sentence.must_agree(ratio=ratios[site])
    assert position in rank_outliers(trace)[:3]
    assert sentence.text.endswith("attention sinks.") == (position == 0)
    _check_token(sentence, trace)
    _check_largest_value(sentence, trace, report)


@claim(_SEQUENCE, "^And {many} other outlier token[[s]]")
def check_other_outliers(sentence: Sentence, report: Json) -> None:
    sentence.must_agree(many=len(rank_outliers(_trace_of(sentence, report))) - 3)


@claim(r"", "^{id_site}  add {depth} of {list_stack}, {id_placement}$")
def check_add_heading(sentence: Sentence, report: Json) -> None:
    (add,) = (
        each
        for each in report["architecture"]["residual_adds"]
        if each["id"] == sentence["id_site"]
    )
    sentence.must_agree(depth=add["depth"])
    assert sentence["list_stack"] == (add["stack"] or ROOT)
    assert sentence["id_placement"] == add["placement"]


@claim(r"", "^{id_site}  {id_kind}, {id_role}, eps {eps} in {list_denominator}$")
def check_norm_heading(sentence: Sentence, report: Json) -> None:
    norm = norm_of(report, sentence["id_site"])
    assert (sentence["id_kind"], sentence["id_role"]) == (norm["kind"], norm["role"])
    sentence.must_agree(eps=norm["eps"])


def traced_norms(trace: Json) -> dict[str, list[float]]:
    """Stream norms of adds that ran over the tokens of the trace."""
    return {id: norms for id, norms in trace["out_norm"].items() if len(norms) == length_of(trace)}


def length_of(trace: Json) -> int:
    """How many tokens there are."""
    return len(trace["tokens"])


def norm_ratio(norms: list[float], position: int) -> float:
    """A token's norm over the median of the finite ones; 0 where there is none."""
    finite = [norm for norm in norms if math.isfinite(norm)]
    if not finite or norms[position] == 0:
        return 0.0
    middle, norm = median(finite), norms[position]
    return norm / middle if middle > 0 and math.isfinite(norm) else math.inf


def peaks_of(trace: Json) -> list[tuple[float, str]]:
    """The largest ratio of each token, and the add where it is."""
    norms = traced_norms(trace)
    return [
        max(((norm_ratio(norms[id], place), id) for id in norms), key=lambda pair: pair[0])
        for place in range(length_of(trace))
    ]


def rank_outliers(trace: Json) -> list[int]:
    """Positions of the outlier tokens, the largest ratio first."""
    peaks = peaks_of(trace)
    outliers = [place for place, (ratio, _) in enumerate(peaks) if ratio >= _OUTLIER]
    return sorted(outliers, key=lambda place: -peaks[place][0])


def _trace_of(sentence: Sentence, report: Json) -> Json:
    number = int(sentence.heading.split()[1])
    (trace,) = (each for each in report["trace"] if each["sequence"] == number)
    return dict(trace)


def _check_token(sentence: Sentence, trace: Json) -> None:
    position = int(sentence["position"])
    assert sentence["list_token"] == trace["tokens"][position]
    is_special = bool(trace["special"][position : position + 1] == [True])
    assert ('" (special)' in sentence.text) == is_special


def _check_largest_value(sentence: Sentence, trace: Json, report: Json) -> None:
    position, site = int(sentence["position"]), sentence["id_add"]
    assert sentence.holds("y") == (site in trace["max_abs"])
    if not sentence.holds("y"):
        return
    value = trace["max_abs"][site][position]
    sentence.must_agree(y=value, channel=trace["max_channel"][site][position])
    typical = report["measurements"]["stream"][site]["median_abs"]
    times = value / typical if typical else 0.0
    assert sentence.holds("times") == (times >= _MASSIVE)
    if sentence.holds("times"):
        sentence.must_agree(times=times)
