"""What is written about two models: what was compared, on what, and the outcome."""

from __future__ import annotations

import re

from tests.sentences.claims import Json, Sentence, check_paragraph, claim
from tests.sentences.report_values import is_largest
from tests.sentences.shown_numbers import agrees_with

EFFECTS = ("non-finite", "stream", "stream-factor", "output")
"""Kinds of differences that are no causes."""
_WHY = r"(?P<message>.*?)(?: \((?P<why>(?:its value was|its severity was|in A, but not at) .*)\))?$"


@claim(r"", "^inputs: {sequences} sequence[[s]], {tokens} token[[s]] ({list_kind})", "comparison")
def check_inputs(sentence: Sentence, document: Json) -> None:
    for side in "ab":
        inputs = document["comparison"][side]["probe"]
        sentence.must_agree(sequences=inputs["sequences"], tokens=inputs["tokens"])


@claim(
    r"",
    "^output: {id_name}: relative error {error} (median over tokens)$",
    "comparison",
)
def check_output(sentence: Sentence, document: Json) -> None:
    output = document["comparison"]["outputs"][sentence["id_name"]]
    sentence.must_agree(error=output["median"])
    assert output["median"] <= output["max"]


@claim(
    r"",
    "the streams are not compared: A was run on {sequences} sequences of {tokens} tokens "
    "({list_kind}[[, seed {seed}]]), B on {others} sequences of {those} tokens "
    "({list_other}[[, seed {second}]])",
    "comparison",
)
def check_other_inputs(sentence: Sentence, document: Json) -> None:
    mine, theirs = (document["comparison"][side]["probe"] for side in "ab")
    sentence.must_agree(
        sequences=mine["sequences"],
        tokens=mine["tokens"],
        others=theirs["sequences"],
        those=theirs["tokens"],
    )
    for name, inputs in (("seed", mine), ("second", theirs)):
        assert sentence.holds(name) == (inputs["seed"] is not None)
        if sentence.holds(name):
            sentence.must_agree(**{name: inputs["seed"]})


@claim(r"", "(and {many} more difference[[s]])", "comparison")
def check_more_differences(sentence: Sentence, document: Json) -> None:
    kinds = [each["kind"] for each in document["comparison"]["differences"]]
    sentence.must_agree(many=sum(kind not in EFFECTS for kind in kinds) - 1)


@claim(
    r"",
    "; the stream diverges from {id_add} on (relative error {error}[[ at the worst token]]"
    "[[ of the largest norm]][[, median {median}]])",
    "comparison",
)
def check_divergence(sentence: Sentence, document: Json) -> None:
    comparison = document["comparison"]
    site = next(
        each
        for each in comparison["stream"]
        if _is_beyond(each["skip"], each) or _is_beyond(each["out"], each)
    )
    assert sentence["id_add"] == site["a"] == comparison["first_divergence"]["a"]
    is_in_most = site["out"]["median"] > site["tolerance"]
    assert sentence.holds("median") != is_in_most
    assert ("at the worst token" in sentence.text) == (
        not is_in_most and site["tokens"] is not None
    )
    assert ("of the largest norm" in sentence.text) == (not is_in_most and site["tokens"] is None)
    sentence.must_agree(error=site["out"]["median" if is_in_most else "max"])
    if not is_in_most:
        sentence.must_agree(median=site["out"]["median"])


def _is_beyond(part: Json, site: Json) -> bool:
    """At half of the tokens, or by a factor of 30 at one."""
    return bool(part["median"] > site["tolerance"] or part["max"] > 30 * site["tolerance"])


@claim(
    r"",
    "no difference beyond rounding in {id_dtype}: the relative error of the stream ([[of norms "
    "over tokens]][[median over tokens]]) is at most {error} at {id_add} (rounding tolerance "
    "{tolerance})[[; that of the outputs at most {behind}]]",
    "comparison",
)
def check_rounding(sentence: Sentence, document: Json) -> None:
    comparison = document["comparison"]
    assert not comparison["differences"] and comparison["first_divergence"] is None
    assert sentence["id_dtype"] == comparison["dtype"]
    (site,) = (each for each in comparison["stream"] if each["a"] == sentence["id_add"])
    medians = [each["out"]["median"] for each in comparison["stream"]]
    assert is_largest(site["out"]["median"], medians)
    assert site["out"]["median"] <= site["tolerance"]
    assert ("(median over tokens)" in sentence.text) == (site["tokens"] is not None)
    sentence.must_agree(error=site["out"]["median"], tolerance=site["tolerance"])
    outputs = [each["median"] for each in comparison["outputs"].values()]
    assert sentence.holds("behind") == bool(outputs)
    if outputs:
        sentence.must_agree(behind=max(outputs))


@claim(
    r"",
    "no difference: the streams [[and outputs ]]are equal in every number that was compared",
    "comparison",
)
def check_equality(sentence: Sentence, document: Json) -> None:
    comparison = document["comparison"]
    assert not comparison["differences"] and comparison["stream"]
    for site in comparison["stream"]:
        assert all(
            site[part]["max"] == 0 == site[part]["median"] for part in ("skip", "branch", "out")
        )
    if " and outputs " in sentence.text:
        if comparison["outputs"]:
            assert all(each["max"] == 0 for each in comparison["outputs"].values())
        else:
            mine, theirs = (document[side]["measurements"]["outputs"] for side in "ab")
            assert mine and mine == theirs


@claim(r"Stream", "^Stream  {some} of {all} add[[s]]$", "comparison")
def check_stream_heading(sentence: Sentence, document: Json) -> None:
    sites = len(document["comparison"]["stream"])
    assert int(sentence["some"]) == sites or sites > 12 >= int(sentence["some"])
    sentence.must_agree(all=sites)


@claim(r"Stream", "median over {tokens} sampled token[[s]])", "comparison")
def check_tokens(sentence: Sentence, document: Json) -> None:
    sentence.must_agree(tokens=document["comparison"]["stream"][0]["tokens"])
    assert len({site["tokens"] for site in document["comparison"]["stream"]}) == 1


@claim(r"Differences", "^also at {list_sites}$$", "comparison")
def check_other_sites(sentence: Sentence, document: Json) -> None:
    shown, _, more = re.sub(r" and (\d+) more$", r"|\1", sentence["list_sites"]).partition("|")
    names = shown.split(", ")
    assert any(
        sites[1 : 1 + len(names)] == names and len(sites) == 1 + len(names) + int(more or 0)
        for each in document["comparison"]["differences"]
        for sites in (each["a"] or each["b"],)
    ), sentence.text


@claim(r"Findings", "^{id_state}: {id_code} {id_name}: {list_message}$$", "comparison")
def check_change(sentence: Sentence, document: Json) -> None:
    """The message is one of the report that has the finding, and true of it."""
    parts = re.match(
        _WHY if sentence["id_state"] == "worse" else r"(?P<message>.*)$", sentence["list_message"]
    )
    assert parts is not None
    side = document["a" if sentence["id_state"] == "gone" else "b"]
    change, finding = next(
        (change, finding)
        for change in document["comparison"]["changes"]
        for finding in side["findings"]
        if change["state"] == sentence["id_state"]
        and change["finding"]["message"] == finding["message"]
        and change["finding"]["code"] == sentence["id_code"]
        and _is_shown(parts["message"], finding["message"])
    )
    heading = f"{sentence['id_code']} {sentence['id_name']}  ({finding['confidence']} confidence)"
    unknown = list(check_paragraph(heading, f"what: {parts['message']}", side))
    assert not unknown, unknown
    if sentence["id_state"] == "worse":
        assert parts["why"] == change["why"]
        _check_why(parts["why"], finding, document["a"])


def _is_shown(shown: str, message: str) -> bool:
    start, _, rest = shown.partition("[.. ")
    return message == shown or (
        bool(rest) and message.startswith(start) and message.endswith(rest.split(" ..]")[1])
    )


def _check_why(why: str, finding: Json, before: Json) -> None:
    old = [each for each in before["findings"] if each["code"] == finding["code"]]
    assert old
    values = re.match(r"its value was (\S+); (\S+) is worse by more than 10%$", why)
    if values is not None:
        assert agrees_with(values[2], finding["value"])
        assert any(agrees_with(values[1], each["value"]) for each in old)
