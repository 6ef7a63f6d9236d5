"""Every cell of a table is the number at its key in the JSON; what is not there says what is."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from normdiag.errors import UsageError
from normdiag.evidence.gradients import Gradients, Loss, NormGradient
from normdiag.evidence.tokens import TokenTrace
from normdiag.report.python.tables import TABLES, list_rows
from normdiag.report.report import Report
from tests import reports

ADD, OTHER = "model.layers.0/add#0", "model.layers.0/add#1"
NORM = "model.layers.0.input_layernorm"


def full_report() -> Report:
    """With gradients, and with two sequences of tokens at one add and one norm."""
    report = reports.llama(3)
    gradients = Gradients(
        loss=Loss(kind="causal-lm", value=2.0, tokens=9),
        stream={ADD: 0.5, OTHER: 0.25},
        ratio_last_first=0.5,
        ratios={"model.layers": 0.5},
        norms={NORM: NormGradient(gain=0.1, bias=None)},
        groups={"lm_head": 0.75},
        global_norm=3.0,
    )
    trace = tuple(
        TokenTrace(
            sequence=sequence,
            text="a b",
            ids=(1, 2),
            tokens=("a", "b"),
            special=(True, False),
            out_norm={ADD: (1.0 + sequence, 2.0)},
            update_ratio={ADD: (0.1, 0.2)},
            input_var={NORM: (3.0, 4.0)},
            max_abs={ADD: (5.0, 6.0)},
            max_channel={ADD: (7, 8)},
        )
        for sequence in range(2)
    )
    measurements = replace(report.measurements, gradients=gradients)
    return replace(report, measurements=measurements, trace=trace)


def read_key(documents: list[dict[str, Any]], path: str) -> Any:
    """The value at a path of the one document that has it."""
    found: list[Any] = documents
    for key in path.split("."):
        found = [each[key] for each in found if isinstance(each, dict) and key in each]
    (value,) = (each for each in found if not isinstance(each, dict))
    return value


@pytest.mark.parametrize(
    ("table", "facts", "numbers"),
    [
        ("stream", "residual_adds", "stream"),
        ("norms", "norms", "norms"),
        ("blocks", None, "blocks"),
    ],
)
def test_cells_are_the_values_at_their_keys(table: str, facts: str | None, numbers: str) -> None:
    report = full_report()
    document = report.to_dict()
    measured = document["measurements"][numbers]
    sites = {site["id"]: site for site in document["architecture"][facts]} if facts else {}
    rows = list_rows(report, table)
    assert [row["id"] for row in rows] == list(sites or measured)
    for row in rows:
        for column, value in row.items():
            if (table, column) in (("blocks", "id"), ("blocks", "stack")):
                continue
            expected = read_key([sites.get(row["id"], {}), measured[row["id"]]], column)
            assert value == (tuple(expected) if isinstance(expected, list) else expected), column
    assert {row["stack"] for row in rows} <= {"model.layers"}


def test_gradients_are_one_row_per_quantity() -> None:
    rows = {(row["id"], row["quantity"]): row for row in list_rows(full_report(), "gradients")}
    assert {key: row["value"] for key, row in rows.items()} == {
        (ADD, "stream"): 0.5,
        (OTHER, "stream"): 0.25,
        (NORM, "gain"): 0.1,
        ("lm_head", "share"): 0.75,
    }
    assert rows[NORM, "gain"]["layer"] == 0
    assert rows["lm_head", "share"]["stack"] is None
    assert list_rows(reports.llama(), "gradients") == []


def test_tokens_are_one_row_per_token_and_site() -> None:
    rows = list_rows(full_report(), "tokens")
    assert len(rows) == 2 * 2 * 2
    assert rows[1] == {
        "sequence": 0, "position": 1, "token": "b", "special": False, "id": ADD,
        "stack": "model.layers", "layer": 0,
        "out_norm": 2.0, "update_ratio": 0.2, "max_abs": 6.0, "max_channel": 8,
    }  # fmt: skip
    assert [row["input_var"] for row in rows if row["id"] == NORM] == [3.0, 4.0, 3.0, 4.0]
    with pytest.raises(UsageError, match=r"normdiag\.trace"):
        list_rows(reports.llama(), "tokens")


@pytest.mark.parametrize("count", [1, 3])
def test_a_site_with_another_number_of_tokens_has_no_names(count: int) -> None:
    report = full_report()
    traced = replace(report.trace[0], input_var={NORM: (3.0,) * count})
    rows = list_rows(replace(report, trace=(traced,)), "tokens")
    norms = [row for row in rows if row["id"] == NORM]
    assert [(row["position"], row["token"]) for row in norms] == [(k, None) for k in range(count)]
    assert [row["token"] for row in rows if row["id"] == ADD] == ["a", "b"]


def test_findings_keep_their_sites() -> None:
    (row,) = list_rows(reports.llama(), "findings")
    assert (row["code"], row["ids"]) == ("ND304", ("model.layers.4/add#1",))


def test_an_unknown_table_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="'layers'") as caught:
        reports.llama().to_frame("layers")
    assert all(repr(name) in str(caught.value) for name in TABLES)


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        reports.llama().to_frame("stream")


@pytest.mark.parametrize("table", TABLES)
def test_frames_hold_the_rows(table: str) -> None:
    pandas = pytest.importorskip("pandas")
    report = full_report()
    frame, rows = report.to_frame(table), list_rows(report, table)
    assert len(frame) == len(rows) > 0
    for place, row in enumerate(rows):
        for column, value in row.items():
            cell = frame[column].iloc[place]
            is_missing = value is None and pandas.isna(cell)
            assert is_missing or cell == value or cell is value, column
