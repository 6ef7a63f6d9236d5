"""The cells of tables and the order of their rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from tests.sentences.claims import Json
from tests.sentences.pages import TextRow
from tests.sentences.report_values import ROOT, adds_of
from tests.sentences.shown_numbers import agrees_with

TableCheck = Callable[[str, list[TextRow], Json], None]


def check_table(heading: str, rows: list[TextRow], report: Json) -> None:
    """Check a table by the heading above it.

    Raises:
        AssertionError: a cell or an order that is not the report's, or a table that none knows.
    """
    assert all(row not in rows[:place] for place, row in enumerate(rows)), "a row stands twice"
    for start, check in TABLES.items():
        if heading.startswith(start):
            check(heading, rows, report)
            return
    raise AssertionError(f"no check knows the table below {heading!r}")


def _stack_of(heading: str) -> str:
    name = heading.split(" of ", 1)[1]
    return "" if name == ROOT else name


def _must_agree(shown: str, value: float | None, place: str) -> None:
    assert agrees_with(shown, value), f"{place}: shown {shown}, by the report {value}"


def check_stream(heading: str, rows: list[TextRow], report: Json) -> None:
    """One row per add, in order of depth."""
    stack = _stack_of(heading)
    adds = [add for add in report["architecture"]["residual_adds"] if add["stack"] == stack]
    places = []
    for row in rows:
        add = min(
            (
                each
                for each in adds
                if str(each["layer"]) == row["layer"] and each["id"].endswith(row["add"])
            ),
            key=lambda each: len(each["id"]),
        )
        places.append(add["depth"])
        values = report["measurements"]["stream"][add["id"]]
        for title, value in {
            "norm": values["out_norm"]["median"],
            "update": values["update_ratio"]["median"],
            "cosine": values["cosine"]["median"],
            "max |y|": values["max_abs"],
            "channel": values["max_channel"],
            "out ratio": (values["out_ratio"] or {}).get("median"),
            "token cos": values["token_cosine"],
        }.items():
            _must_agree(row[title], value, f"{add['id']} {title}")
        _check_range(row["5..95 %"], (values["quantiles"] or {}).get("out_norm"), add["id"])
    assert places == sorted(places)


def _check_range(shown: str, quantiles: Json | None, place: str) -> None:
    if quantiles is None:
        assert shown == "-", f"{place}: shown {shown}, nothing in the report"
        return
    for end, name in zip(shown.split(".."), ("p5", "p95"), strict=True):
        _must_agree(end, quantiles[name], place)


def check_norms(heading: str, rows: list[TextRow], report: Json) -> None:
    """By the largest eps share where it is 1 % or more, then by the largest kappa."""
    norms = {norm["id"]: norm for norm in report["architecture"]["norms"]}
    keys = []
    for row in rows:
        norm, values = norms[row["norm"]], report["measurements"]["norms"][row["norm"]]
        assert row["role"] == norm["role"]
        share = None if values["eps_share"] is None else values["eps_share"]["max"]
        jacobian = values["jacobian"] or {}
        shown = jacobian.get("live_kappa") or jacobian.get("kappa")
        kappa = None if shown is None else shown["max"]
        _must_agree(row["variance"], values["input_var"]["median"], row["norm"])
        _must_agree(row["eps share"], share, row["norm"])
        _must_agree(row["kappa"], kappa, row["norm"])
        _must_agree(row["smallest"], values["input_var"]["min"], row["norm"])
        _must_agree(row["channel"], values["channel_share"], row["norm"])
        largest = jacobian["sigma_max"]["max"] if jacobian else None
        _must_agree(row["sigma_max"], largest, row["norm"])
        if norm["gain"] is not None:
            low, high = row["|gain|"].split("..")
            _must_agree(low, norm["gain"]["min_abs"], row["norm"])
            _must_agree(high, norm["gain"]["max_abs"], row["norm"])
        if share is not None and math.isfinite(share):
            keys.append((share if share >= 0.01 else 0.0, kappa or 0.0))
    assert keys == sorted(keys, reverse=True)


def check_blocks(heading: str, rows: list[TextRow], report: Json) -> None:
    """One row per layer, in order."""
    stack = _stack_of(heading)
    blocks = {
        str(each["layer"]): each
        for id, each in report["measurements"]["blocks"].items()
        if each["span"] == "layer" and id.startswith(f"{stack}/layer#")
    }
    assert [row["layer"] for row in rows] == sorted((row["layer"] for row in rows), key=int)
    for row in rows:
        block = blocks[row["layer"]]
        for title, key in {
            "sigma_max": "sigma_max",
            "sigma_min": "sigma_min",
            "kappa": "kappa",
            "mean sq.": "mean_square",
            "|J - I|": "distance",
        }.items():
            _must_agree(row[title], block[key], f"{stack} layer {row['layer']} {title}")
        kappas = [math.inf if each["kappa"] is None else each["kappa"] for each in block["tokens"]]
        low, high = row["kappa range"].split("..")
        _must_agree(low, min(kappas), f"{stack} layer {row['layer']} kappa range")
        _must_agree(high, max(kappas), f"{stack} layer {row['layer']} kappa range")


def check_gradients(heading: str, rows: list[TextRow], report: Json) -> None:
    """Adds in order of depth; groups by their share, the largest first."""
    gradients = report["measurements"]["gradients"]
    if rows and "add" in rows[0]:
        order = [id for s in report["architecture"]["stacks"] for id in adds_of(report, s["id"])]
        assert [row["add"] for row in rows] == [
            id for id in order if id in {r["add"] for r in rows}
        ]
        for row in rows:
            _must_agree(row["||dL/dy||"], gradients["stream"][row["add"]], row["add"])
        return
    groups = gradients["groups"]
    shown = [row for row in rows if row["parameters of"] in groups]
    for row in shown:
        _must_agree(row["share"], groups[row["parameters of"]], row["parameters of"])
    shares = [groups[row["parameters of"]] for row in shown]
    assert all(a >= b for a, b in pairwise(shares) if math.isfinite(a + b)), shares
    for row in rows[len(shown) :]:
        names = {each["parameters of"] for each in shown}
        rest = [share for name, share in groups.items() if name not in names]
        assert row["parameters of"] == f"{len(rest):,} more"
        _must_agree(row["share"], math.fsum(rest), "the others")
    if gradients["global_norm"] and all(map(math.isfinite, groups.values())):
        assert math.isclose(math.fsum(groups.values()), 1, rel_tol=1e-6)


def check_formats(heading: str, rows: list[TextRow], report: Json) -> None:
    """One row per format; the headroom is the largest number over the largest value."""
    precision = report["measurements"]["precision"]
    for row in rows:
        headroom = precision["formats"][row["format"]]
        _must_agree(row["headroom"], headroom["headroom"], row["format"])
        assert int(row["eps = 0"]) == len(headroom["underflowing_epsilons"])
        assert row["least headroom at"] == (headroom["headroom_site"] or "-")
        absorbed = sorted(headroom["absorbed_updates"].values())
        if absorbed:
            middle = (absorbed[(len(absorbed) - 1) // 2] + absorbed[len(absorbed) // 2]) / 2
            first, second = row["absorbed"].split(", ")
            _must_agree(first, middle, row["format"])
            _must_agree(second, absorbed[-1], row["format"])
    headrooms = [precision["formats"][row["format"]] for row in rows]
    peaks = [f["largest"] / f["headroom"] for f in headrooms if f["headroom"]]
    assert all(math.isclose(peak, peaks[0], rel_tol=1e-9) for peak in peaks if peak == peak)


def check_tensors(heading: str, rows: list[TextRow], report: Json) -> None:
    """One row per vector."""
    vectors = {each["name"]: each for each in report["measurements"]["weights"]["vectors"]}
    for row in rows:
        tensor = vectors[row["tensor"]]
        _must_agree(row["zeros"], tensor["zeros"], row["tensor"])
        _must_agree(row["max |w|"], tensor["max_abs"], row["tensor"])
        _must_agree(row["not finite"], tensor["nonfinite"], row["tensor"])


def check_stream_weights(heading: str, rows: list[TextRow], report: Json) -> None:
    """One row per add, in order of depth; a weight per stream, eight at most."""
    adds = {a["id"]: a for a in report["architecture"]["residual_adds"]}
    of_stack = [a for a in adds.values() if a["stack"] == _stack_of(heading)]
    ends = [(row["layer"], row["add"]) for row in rows]
    shown = [a for a in of_stack for layer, add in ends if _is_add(a, layer, add)]
    assert [a["depth"] for a in shown] == sorted(a["depth"] for a in shown)
    assert len(shown) == len(rows)
    for add, row in zip(shown, rows, strict=True):
        for title in ("read", "write"):
            weights = add[f"{title}_weights"]
            cells = row[title].removesuffix(" ..").split(" ")
            if weights is not None and weights["kind"] == "data":
                assert row[title] == "by token"
            elif weights is None or weights["values"] is None:
                assert row[title] == "-"
            else:
                assert row[title].endswith(" ..") == (len(weights["values"]) > len(cells))
                for cell, value in zip(cells, weights["values"], strict=len(cells) < 8):
                    _must_agree(cell, value, f"{add['id']} {title}")


def _is_add(add: Json, layer: str, end: str) -> bool:
    return str(add["layer"]) == layer and bool(add["id"].endswith(f"/{end}"))


TABLES: dict[str, TableCheck] = {
    "Stream of ": check_stream,
    "Streams of ": check_stream_weights,
    "Norms": check_norms,
    "Jacobians of ": check_blocks,
    "Gradients": check_gradients,
    "Number formats": check_formats,
    "Gains and biases": check_tensors,
}
