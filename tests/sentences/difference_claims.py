"""What is written about sites that differ, each number against both reports."""

from __future__ import annotations

import math
import re

from tests.sentences.claims import Json, Sentence, claim
from tests.sentences.difference_sites import IDS, PLACES, claim_at_sites, pair_of
from tests.sentences.shown_numbers import agrees_with


@claim_at_sites(f"epsilon is {{mine}} in A and {{theirs}} in B{PLACES}{IDS}", "epsilon")
@claim_at_sites(f"epsilon is {{mine}} in A and none in B{PLACES}{IDS}", "epsilon")
@claim_at_sites(f"epsilon is none in A and {{theirs}} in B{PLACES}{IDS}", "epsilon")
def check_epsilon(sentence: Sentence, document: Json, difference: Json) -> None:
    x, y = (norm["eps"] for norm in pair_of(document, difference))
    assert (x is not None, y is not None) == (sentence.holds("mine"), sentence.holds("theirs"))
    sentence.must_agree(
        **({"mine": x} if x is not None else {}), **({"theirs": y} if y is not None else {})
    )


@claim_at_sites(
    f"the scale on the {{id_what}} is {{list_scales}}{PLACES}{IDS}",
    "scale",
)
def check_scale(sentence: Sentence, document: Json, difference: Json) -> None:
    shown = re.fullmatch(
        r"(\S+)( \(learned\))? in A and (\S+)( \(learned\))? in B", sentence["list_scales"]
    )
    assert shown is not None
    for add, size, learned in zip(
        pair_of(document, difference), shown.groups()[::2], shown.groups()[1::2], strict=True
    ):
        scale = add[f"{sentence['id_what']}_scale"]
        assert bool(learned) == (scale["kind"] == "learned")
        if size == "none":
            assert scale["kind"] == "none"
        else:
            assert agrees_with(size, scale["rms"] if scale["value"] is None else scale["value"])


@claim_at_sites(
    f"the placement is {{id_mine}} in A and {{id_theirs}} in B{PLACES}{IDS}", "placement"
)
def check_placement(sentence: Sentence, document: Json, difference: Json) -> None:
    mine, theirs = pair_of(document, difference)
    assert (sentence["id_mine"], sentence["id_theirs"]) == (mine["placement"], theirs["placement"])


@claim_at_sites(f"{{mine}} branches are summed in A and {{theirs}} in B{PLACES}{IDS}", "placement")
def check_branches(sentence: Sentence, document: Json, difference: Json) -> None:
    mine, theirs = pair_of(document, difference)
    sentence.must_agree(mine=mine["branches"], theirs=theirs["branches"])


@claim_at_sites(f"the norm is a {{id_mine}} in A and {{id_theirs}} in B{PLACES}{IDS}", "norm")
@claim_at_sites(
    f"the role of the norm is {{id_mine}} in A and {{id_theirs}} in B{PLACES}{IDS}", "norm"
)
def check_kind(sentence: Sentence, document: Json, difference: Json) -> None:
    key = "role" if sentence.text.startswith("the role") else "kind"
    mine, theirs = pair_of(document, difference)
    assert (sentence["id_mine"], sentence["id_theirs"]) == (mine[key], theirs[key])


@claim_at_sites(
    f"the number of features normalised over is {{mine}} in A and {{theirs}} in B{PLACES}{IDS}",
    "norm",
)
def check_features(sentence: Sentence, document: Json, difference: Json) -> None:
    mine, theirs = pair_of(document, difference)
    sentence.must_agree(mine=mine["features"], theirs=theirs["features"])


@claim_at_sites(
    f"the weights on the branch differ{PLACES}{IDS} (their {{id_what}} is {{mine}} in A, "
    "{theirs} in B)",
    "weights",
)
def check_weights(sentence: Sentence, document: Json, difference: Json) -> None:
    mine, theirs = (
        document[side]["measurements"]["branch_weights"][difference[side][0]] for side in "ab"
    )
    what = sentence["id_what"]
    assert what in ("norm", "sum")
    sentence.must_agree(mine=mine[what], theirs=theirs[what])


@claim_at_sites(
    "what the norm puts out differs for equal inputs (its formula, epsilon or a buffer)"
    f"{PLACES}{IDS} (relative error {{error}})",
    "norm-output",
)
def check_norm_output(sentence: Sentence, document: Json, difference: Json) -> None:
    norms = document["comparison"]["norms"]
    sentence.must_agree(error=norms[sentence["id_site"]]["output"]["median"])
    assert difference["value"] == max(norms[id]["output"]["median"] for id in difference["a"])
    assert all(norms[id]["input"]["max"] < norms[id]["output"]["median"] for id in difference["a"])


@claim(
    r"",
    "the outputs ({id_name}) differ, relative error {error}: equal up to the last add {id_add};",
    "comparison",
)
def check_outputs(sentence: Sentence, document: Json) -> None:
    comparison = document["comparison"]
    sentence.must_agree(error=comparison["outputs"][sentence["id_name"]]["median"])
    assert comparison["stream"][-1]["a"] == sentence["id_add"]
    assert comparison["first_divergence"] is None


@claim(
    r"",
    "{list_what} is {factor} times as large in B as in A",
    "comparison",
)
def check_factor(sentence: Sentence, document: Json) -> None:
    comparison = document["comparison"]
    if sentence["list_what"].startswith("the gain"):
        return
    divergence = comparison["first_divergence"]
    (site,) = (each for each in comparison["stream"] if each["a"] == divergence["a"])
    assert divergence["a"] in sentence["list_what"]
    part = site[divergence["where"]]
    sentence.must_agree(factor=part["factor"])
    assert part["after_scaling"] <= site["tolerance"]


@claim(
    r"",
    "the buffer {id_name} differs: {mine} in A, {theirs} in B",
    "comparison",
)
def check_buffer(sentence: Sentence, document: Json) -> None:
    sums = [_fingerprint(document[side], sentence["id_name"]) for side in "ab"]
    assert all(math.prod(each["shape"]) == 1 for each in sums)
    sentence.must_agree(mine=sums[0]["sum"], theirs=sums[1]["sum"])


@claim(
    r"",
    "the buffer {id_name} differs: rms {mine}, mean {middle} in A, rms {theirs}, mean {second} in "
    "B",
    "comparison",
)
def check_buffer_sums(sentence: Sentence, document: Json) -> None:
    sums = [_fingerprint(document[side], sentence["id_name"]) for side in "ab"]
    sizes = [math.prod(each["shape"]) for each in sums]
    rms = [math.sqrt(each["squares"] / size) for each, size in zip(sums, sizes, strict=True)]
    means = [each["sum"] / size for each, size in zip(sums, sizes, strict=True)]
    sentence.must_agree(mine=rms[0], middle=means[0], theirs=rms[1], second=means[1])


def _fingerprint(report: Json, name: str) -> Json:
    return dict(report["measurements"]["weights"]["fingerprints"][name])


@claim(
    r"",
    "tensors that differ: {list_names}[[ and {more} more]][[; nothing else that was compared does]]"
    "$",
    "comparison",
)
def check_tensors(sentence: Sentence, document: Json) -> None:
    names = sentence["list_names"].split(", ")
    for name in names:
        mine, theirs = (_fingerprint(document[side], name) for side in "ab")
        assert mine != theirs
