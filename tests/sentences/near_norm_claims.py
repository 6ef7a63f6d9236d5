"""What is written about near-norms."""

from __future__ import annotations

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.findings import finding_of


@claim(
    r"ND108",
    "output rms {low} to {high} there ({one} for a norm), {factor} that for {two} x "
    "({same} for a norm)",
)
def check_sizes(sentence: Sentence, report: Json) -> None:
    near = report["measurements"]["near_norms"][finding_of(sentence, report)["ids"][0]]
    sentence.must_agree(
        low=near["output_rms"]["min"],
        high=near["output_rms"]["max"],
        factor=2.0 ** near["size_exponent"],
        one=1,
        two=2,
        same=1,
    )


@claim(r"Coverage", "{list_formula}, {calls} calls: {list_names}$")
def check_calls(sentence: Sentence, report: Json) -> None:
    norms = [each for each in report["architecture"]["norms"] if each["scaling"] is not None]
    sentence.must_agree(calls=len(norms))
    assert norms[0]["id"] in sentence["list_names"]
    names, _, more = sentence["list_names"].partition(" and ")
    if more:
        sentence_names = names.split(", ")
        assert len(sentence_names) + int(more.removesuffix(" more")) == len(norms)
