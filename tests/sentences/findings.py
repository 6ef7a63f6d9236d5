"""Looking up what a finding speaks of."""

from __future__ import annotations

import re
from typing import Any

from tests.sentences.claims import Json, Sentence


def finding_of(sentence: Sentence, report: Json) -> Json:
    """Return the finding whose message holds the sentence."""
    code = sentence.heading.split()[0]
    claim = sentence.text.removeprefix("what: ").rstrip(".;:, ")
    matching = [
        each for each in report["findings"] if each["code"] == code and claim in each["message"]
    ]
    assert matching, f"no finding {code} holds {sentence.text!r}"
    return dict(matching[0])


def norm_of(report: Json, id: str) -> Any:
    """Return the norm of an id."""
    (norm,) = (each for each in report["architecture"]["norms"] if each["id"] == id)
    return norm


def norm_values(report: Json, ids: list[str]) -> list[Json]:
    """Return what was measured at norms."""
    return [report["measurements"]["norms"][id] for id in ids]


def check_places(places: str, finding: Json, report: Json) -> None:
    """Check that places such as "layers 0-1 and 4 of blocks and ln_f" are those of the finding.

    Raises:
        AssertionError: the layers are not those of the sites, or a site stands nowhere.
    """
    architecture = report["architecture"]
    layers: dict[str, set[int]] = {}
    outside = set()
    sites = {each["id"]: each for each in (*architecture["norms"], *architecture["residual_adds"])}
    for id in finding["ids"]:
        site = sites.get(id)
        if site is None or site["layer"] is None:
            outside.add(id)
        else:
            layers.setdefault(site["stack"], set()).add(site["layer"])
    for stack, expected in layers.items():
        span = re.search(rf"layers? ([\d, and-]+) of {re.escape(stack)}(?![\w.])", places)
        if span is None:
            assert any(id in places for id in finding["ids"]), (places, finding["ids"])
            continue
        shown: set[int] = set()
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", span.group(1)):
            shown |= set(range(int(first), int(last or first) + 1))
        assert shown == expected, (places, finding["ids"])
    missing = [id for id in outside if id not in places]
    assert not missing or "more" in places, (places, missing)


def add_values(report: Json, id: str) -> Json:
    """Return what was measured at an add."""
    return dict(report["measurements"]["stream"][id])
