"""The page of a model with several streams shows the weights that its report holds."""

from __future__ import annotations

import pytest
import torch

import normdiag
from normdiag.render.interface import Options
from normdiag.render.pages.inspection import build_inspection
from tests.sentences.mutations import assert_all_refused, mutate_page
from tests.sentences.page_check import check_inspection
from tests.sentences.pages import iterate_tables
from tests.sentences.report_values import read_document
from tests.structure.hyper_spellings import HyperNet, Wiring, by_einsum, of_data


@pytest.mark.parametrize("wiring", [by_einsum, of_data])
def test_the_table_of_streams_agrees_with_the_report(wiring: Wiring) -> None:
    torch.manual_seed(0)
    model = HyperNet(wiring, layers=14).eval()
    report = normdiag.inspect(model, inputs=torch.randint(0, 11, (2, 8)), measure=())
    check_inspection(report)
    page = build_inspection(report, Options(all_rows=True))
    tables = dict(iterate_tables(page))
    assert len(tables["Streams of blocks"]) == 14
    assert_all_refused(mutate_page(page, read_document(report)))
    folded = dict(iterate_tables(build_inspection(report, Options())))
    assert [row["layer"] for row in folded["Streams of blocks"]] == [
        "0",
        "1",
        "2",
        "11",
        "12",
        "13",
    ]
