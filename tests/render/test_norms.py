"""The table of norms: which tokens its largest values are over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reports import llama
from tests.written import render_text


def written_legend(**given: int | None) -> str:
    """The page of a report whose Jacobians have these fields; 41 tokens were measured."""
    report = llama(3)
    norms = {
        id: replace(norm, jacobian=replace(norm.jacobian, **given))
        for id, norm in report.measurements.norms.items()
        if norm.jacobian is not None
    }
    assert {norm.tokens for norm in norms.values()} == {41}
    changed = replace(report, measurements=replace(report.measurements, norms=norms))
    return " ".join(render_text(changed).split())


@pytest.mark.parametrize(
    ("tokens", "sample", "over"),
    [(41, 16, "all"), (16, None, "sampled"), (41, None, "sampled"), (16, 16, "sampled")],
)
def test_largest_kappa_names_its_tokens(tokens: int, sample: int | None, over: str) -> None:
    page = written_legend(tokens=tokens, sample=sample)
    assert f"removes and gains near 0, largest over {over} tokens." in page
