"""Sentences of differences at sites: how many there are, and which is the first."""

from __future__ import annotations

from typing import Any

from tests.sentences.claims import Json, Sentence, claim

PLACES = " at [[all {all} {id_noun}, first at ]][[{some} of {total} {id_sites}, first at ]]"
IDS = "{id_site}[[ ({id_other} in B)]]"


def claim_at_sites(template: str, *kinds: str) -> Any:
    """Register a sentence that speaks of sites: their number and the first are checked too."""

    def register(check: Any) -> Any:
        def check_all(sentence: Sentence, document: Json) -> None:
            difference = _check_sites(sentence, document, kinds)
            check(sentence, document, difference)

        claim(r"", template, "comparison")(check_all)
        return check

    return register


def _check_sites(sentence: Sentence, document: Json, kinds: tuple[str, ...]) -> Json:
    site, other = sentence["id_site"], sentence.parts.get("id_other") or sentence["id_site"]
    matching = [
        each
        for each in document["comparison"]["differences"]
        if each["kind"] in kinds
        and (each["a"][:1], each["b"][:1]) == ([site], [other])
        and sentence.text.rstrip(".;: ") in each["message"]
    ]
    assert matching, f"no difference {kinds} holds {sentence.text!r}"
    difference = dict(matching[0])
    many = len(difference["a"])
    noun = "adds" if site in {add["id"] for add in adds_in(document["a"])} else "norms"
    sites = [{each["id"] for each in _sites(document[side], noun)} for side in "ab"]
    most = min(map(len, sites))
    if document["comparison"]["paired_by"] == "id":
        most = len(sites[0] & sites[1])
    if sentence.holds("all"):
        assert sentence["id_noun"] == noun and many <= most
        sentence.must_agree(all=many)
    elif sentence.holds("some"):
        assert sentence["id_sites"] == noun
        sentence.must_agree(some=many)
        assert many < int(sentence["total"].replace(",", "")) <= most
        if document["comparison"]["paired_by"] == "id":
            moved = [
                d for d in document["comparison"]["differences"] if d["kind"] == "moved-layers"
            ]
            assert moved or int(sentence["total"].replace(",", "")) == most
    else:
        assert many == 1
    return difference


def adds_in(report: Json) -> list[Json]:
    return list(report["architecture"]["residual_adds"])


def _sites(report: Json, noun: str) -> list[Json]:
    return adds_in(report) if noun == "adds" else list(report["architecture"]["norms"])


def pair_of(document: Json, difference: Json) -> tuple[Json, Json]:
    """The first site in A and in B."""
    found = []
    for side in "ab":
        (id,) = difference[side][:1]
        found += [
            each
            for noun in ("adds", "norms")
            for each in _sites(document[side], noun)
            if each["id"] == id
        ]
    return found[0], found[1]
