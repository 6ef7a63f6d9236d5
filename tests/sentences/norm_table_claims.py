"""What is written below the table of norms, and about the targets of a loss."""

from __future__ import annotations

import math
import re

from tests.sentences.claims import Json, Sentence, claim


@claim(r"Norms", "Norms  {some} of {all}, by eps share (if at least {least}), then kappa")
def check_norms(sentence: Sentence, report: Json) -> None:
    norms = len(report["measurements"]["norms"])
    assert int(sentence["some"]) in (norms, min(norms, 8))
    sentence.must_agree(all=norms, least=0.01)


@claim(r"Norms", "{more} more norm[[s]]: largest eps share {share}[[, largest kappa {kappa}]]")
def check_more_norms(sentence: Sentence, report: Json) -> None:
    """They are the last ones by the order of the table; of equal ones, those of most variance."""
    norms = [
        report["measurements"]["norms"][each["id"]]
        for each in report["architecture"]["norms"]
        if each["id"] in report["measurements"]["norms"]
    ]
    rest = sorted(norms, key=_table_key)[8:]
    shares = [each["eps_share"]["max"] for each in rest]
    kappas = [kappa for each in rest if (kappa := _largest_kappa(each)) is not None]
    sentence.must_agree(more=len(rest), share=max(shares))
    assert sentence.holds("kappa") == bool(kappas)
    if kappas:
        sentence.must_agree(kappa=max(kappas))


def _largest_kappa(norm: Json) -> float | None:
    jacobian = norm["jacobian"] or {}
    kappa = jacobian.get("live_kappa") or jacobian.get("kappa")
    return None if kappa is None else float(kappa["max"])


def _table_key(norm: Json) -> tuple[float, ...]:
    """The more notable a norm is, the smaller; what is not a number is the most notable."""
    share = norm["eps_share"]["max"]
    keys = (
        share if not share < 0.01 else 0.0,
        _largest_kappa(norm) or 0.0,
        -norm["input_var"]["median"],
    )
    return tuple(-math.inf if math.isnan(key) else -key for key in keys)


@claim(r"Norms", "eps {eps} in {list_form}: {list_where}$")
def check_epsilon_form(sentence: Sentence, report: Json) -> None:
    norms = report["architecture"]["norms"]
    same = [n for n in norms if n["eps"] is not None and f"{n['eps']:g}" == sentence["eps"]]
    _check_places(sentence["list_where"], [norm["id"] for norm in same], norms)
    where = sentence["list_where"]
    shown = [n for n in same if where.startswith("all ") or n["id"] in where.split(", ")]
    for norm in shown:
        is_floor = norm["eps_form"] in ("floor-in-root", "floor-of-root")
        assert is_floor == ("max(" in sentence["list_form"]), norm


@claim(
    r"Norms",
    "Vectors of length {one} have the rms {gain} ({unit}/sqrt({features})): {list_where}$",
)
def check_unit_length(sentence: Sentence, report: Json) -> None:
    features = int(sentence["features"])
    sentence.must_agree(one=1, unit=1, gain=features**-0.5)


@claim(
    r"Norms",
    "The unbiased variance acts as a gain of {gain} (sqrt({fewer}/{features}))[[: {list_where}]]$",
)
def check_unbiased(sentence: Sentence, report: Json) -> None:
    features = int(sentence["features"])
    sentence.must_agree(gain=((features - 1) / features) ** 0.5, fewer=features - 1)


def _check_places(places: str, ids: list[str], norms: list[Json]) -> None:
    many = re.fullmatch(r"all ([\d,]+) norms", places)
    if many:
        assert int(many.group(1).replace(",", "")) == len(norms) == len(ids)
        return
    names, _, more = re.sub(r" and ([\d,]+) more$", r"|\1", places).partition("|")
    shown = names.split(", ")
    assert set(shown) <= set(ids), (places, ids)
    assert not more or len(shown) + int(more.replace(",", "")) == len(ids), (places, ids)


@claim(r"Gradients", "{some} of {all} tokens of input_ids, drawn by seed {seed}, are the targets")
def check_targets(sentence: Sentence, report: Json) -> None:
    loss = report["measurements"]["gradients"]["loss"]
    assert sentence["some"] == str(loss["tokens"]) and sentence.text in loss["note"]
    sentence.must_agree(some=loss["tokens"])
    assert int(sentence["all"]) >= loss["tokens"]
