"""What is written about broken chains of adds and about modules that never run."""

from __future__ import annotations

import re
from collections import Counter

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.findings import finding_of


@claim(r"ND109", "no layer has a residual add: {many} branches replace the value that they read")
def check_no_residual(sentence: Sentence, report: Json) -> None:
    assert report["architecture"]["stacks"] == []
    sentence.must_agree(many=len(report["architecture"]["breaks"]))


@claim(r"ND109", "no residual around {many} branches")
def check_broken_branches(sentence: Sentence, report: Json) -> None:
    ids = finding_of(sentence, report)["ids"]
    breaks = [b for b in report["architecture"]["breaks"] if b["last_module"] in ids]
    sentence.must_agree(many=len(breaks))


@claim(r"ND110", "{many} adds in all, {list_places}$")
def check_raw_readers(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    adds = {a["id"]: a for a in report["architecture"]["residual_adds"]}
    assert all(adds[id]["raw_readers"] for id in finding["ids"])
    sentence.must_agree(many=len(finding["ids"]))


@claim(
    r"ND005", "[[{many} modules, {list_names},]][[{id_one}]] did not run ({parameters} parameters)"
)
def check_unused(sentence: Sentence, report: Json) -> None:
    finding = finding_of(sentence, report)
    unused = [u for u in report["coverage"]["unused_modules"] if u["module"] in finding["ids"]]
    sentence.must_agree(parameters=sum(each["parameters"] for each in unused))
    if not sentence.holds("many"):
        assert [each["module"] for each in unused] == [sentence["id_one"]]
        return
    sentence.must_agree(many=len(unused))
    patterns = Counter(re.sub(r"\b\d+\b", "*", each["module"]) for each in unused)
    shown = re.findall(r"(\S+) \((\d+)\)", sentence["list_names"])
    assert shown == [(pattern, str(patterns[pattern])) for pattern, _ in shown]
    more = re.search(r"and (\d+) more", sentence["list_names"])
    assert len(shown) + int(more.group(1) if more else 0) == len(patterns)


@claim(r"ND001", "{many} norms belong to no stack: {list_names}$")
def check_unattached_norms(sentence: Sentence, report: Json) -> None:
    norms = report["coverage"]["unexplained_norms"]
    sentence.must_agree(many=len(norms))
    assert sentence["list_names"].split(",")[0] == norms[0]


@claim(
    r"", "the {layers} layers share the parameters of {modules} module[[s]], called {times} times"
)
def check_shared_layers(sentence: Sentence, report: Json) -> None:
    name = sentence.heading.split()[0]
    (stack,) = (s for s in report["architecture"]["stacks"] if (s["id"] or "model") == name)
    assert stack["layer_modules"] < stack["layers"]
    sentence.must_agree(
        layers=stack["layers"], modules=stack["layer_modules"], times=stack["layers"]
    )
