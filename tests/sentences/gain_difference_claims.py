"""What is written about gains and biases that differ."""

from __future__ import annotations

import math

import pytest

from tests.sentences.claims import Json, Sentence
from tests.sentences.difference_sites import IDS, PLACES, claim_at_sites, pair_of

_LARGEST = (
    " (max relative difference {difference} at channel {channel}: {mine} in A, {theirs} in B)"
)
_RMS = (
    " (rms {mine}[[ and {lost} not finite]] in A, [[rms ]]{theirs}[[ and {gone} not finite]] in B)"
)
_GAINS = ("gain", "gain-offset", "gain-factor")


@claim_at_sites(f"the gain differs{PLACES}{IDS}{_LARGEST}", "gain")
@claim_at_sites(f"the bias differs{PLACES}{IDS}{_LARGEST}", "bias")
@claim_at_sites(
    f"the gain is larger by just {{one}} in {{id_more}} than in {{id_less}}, as with the {{unit}} "
    f"of {{same}} + w{PLACES}{IDS}{_LARGEST}",
    "gain-offset",
)
@claim_at_sites(
    f"the gain of B is {{factor}} times that of A{PLACES}{IDS}{_LARGEST}",
    "gain-factor",
)
def check_elements(sentence: Sentence, document: Json, difference: Json) -> None:
    key = "biases" if difference["kind"] == "bias" else "gains"
    vector = document["comparison"][key][sentence["id_site"]]
    sentence.must_agree(
        difference=vector["max_relative"],
        channel=vector["channel"],
        mine=vector["a"],
        theirs=vector["b"],
    )
    x, y = vector["a"], vector["b"]
    if math.isfinite(x) and math.isfinite(y):
        assert vector["max_relative"] <= abs(x - y) / max(abs(x), abs(y)) * (1 + 1e-9)
    assert difference["value"] >= vector["max_relative"]
    _check_law_of_gains(sentence, document, difference)


@claim_at_sites(f"the gain differs{PLACES}{IDS}{_RMS}", "gain")
@claim_at_sites(
    f"the gain is larger by just {{one}} in {{id_more}} than in {{id_less}}, as with the {{unit}} "
    f"of {{same}} + w{PLACES}{IDS}{_RMS}",
    "gain-offset",
)
@claim_at_sites(f"the gain of B is {{factor}} times that of A{PLACES}{IDS}{_RMS}", "gain-factor")
def check_gain_sizes(sentence: Sentence, document: Json, difference: Json) -> None:
    gains = [norm["gain"] for norm in pair_of(document, difference)]
    sentence.must_agree(mine=gains[0]["rms"], theirs=gains[1]["rms"])
    for name, gain in zip(("lost", "gone"), gains, strict=True):
        assert sentence.holds(name) == (gain["nonfinite"] > 0)
        if sentence.holds(name):
            sentence.must_agree(**{name: gain["nonfinite"]})
    _check_law_of_gains(sentence, document, difference)


def _check_law_of_gains(sentence: Sentence, document: Json, difference: Json) -> None:
    if difference["kind"] == "gain-offset":
        sentence.must_agree(one=1, unit=1, same=1)
        mine, theirs = (norm["gain"] or {"mean": 1.0} for norm in pair_of(document, difference))
        assert abs(theirs["mean"] - mine["mean"]) == pytest.approx(1, rel=1e-2)
        assert (sentence["id_more"] == "B") == (theirs["mean"] > mine["mean"])
        assert {sentence["id_more"], sentence["id_less"]} == {"A", "B"}
    if difference["kind"] == "gain-factor":
        mine, theirs = (norm["gain"] for norm in pair_of(document, difference))
        sign = -1 if mine["mean"] * theirs["mean"] < 0 else 1
        sentence.must_agree(factor=sign * theirs["rms"] / mine["rms"])


@claim_at_sites(
    f"{{id_has}} has a gain and {{id_lacks}} has none{PLACES}{IDS} (rms {{rms}})",
    "gain",
)
def check_single_gain(sentence: Sentence, document: Json, difference: Json) -> None:
    mine, theirs = (norm["gain"] for norm in pair_of(document, difference))
    has, lacks = (mine, theirs) if sentence["id_has"] == "A" else (theirs, mine)
    assert lacks is None and {sentence["id_has"], sentence["id_lacks"]} == {"A", "B"}
    sentence.must_agree(rms=has["rms"])


@claim_at_sites(f"the bias differs{PLACES}{IDS} (rms {{mine}} in A, {{theirs}} in B)", "bias")
def check_bias_sizes(sentence: Sentence, document: Json, difference: Json) -> None:
    mine, theirs = (norm["bias_rms"] or 0.0 for norm in pair_of(document, difference))
    sentence.must_agree(mine=mine, theirs=theirs)
