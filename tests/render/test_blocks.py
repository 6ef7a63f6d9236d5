"""The Jacobians of the layers: what is shown, what is folded, what is only a bound."""

from dataclasses import replace

from normdiag.render.interface import Options
from tests.factories import block
from tests.reports import llama
from tests.written import render_text

NAME = "model.layers"


def section_text(report, **given):
    text = render_text(report, **given)
    start = text.index(f"Jacobians of {NAME}")
    return text[start:].split("\n\n")[0]


def having(report, **changed):
    blocks = report.measurements.blocks | changed
    return replace(report, measurements=replace(report.measurements, blocks=blocks))


def test_a_long_stack_shows_its_ends_and_its_worst():
    report = having(llama(24), **{f"{NAME}/layer#11": block(3.0, 1e-5, layer=11)})
    lines = section_text(report).splitlines()
    numbers = [line.split()[0] for line in lines if line.split()[0].isdigit()]
    assert numbers == ["0", "1", "11", "22", "23"]
    assert any("… 9 layers" in line for line in lines)
    assert "Largest median kappa: 3.00e5 (layer 11)." in section_text(report)
    everything = section_text(report, options=Options(all_rows=True))
    assert "…" not in everything


def test_a_bound_is_marked_as_one():
    hidden = block(3.0, 1e-6, layer=0, is_bound=True)
    said = section_text(having(llama(2), **{f"{NAME}/layer#0": hidden}))
    assert "<1.00e-6" in said and ">3.00e6" in said
    assert "bounds" in said


def test_low_precision_is_said():
    rough = block(3.0, 0.1, layer=0, error=0.125)
    assert "in this precision: up to 12%" in section_text(
        having(llama(2), **{f"{NAME}/layer#0": rough})
    )
    assert "in this precision" not in section_text(llama(2))


def test_nothing_was_differentiated():
    report = llama(2)
    report = replace(report, measurements=replace(report.measurements, blocks={}))
    assert "Jacobians" not in render_text(report)


def test_the_table_for_spreadsheets_has_the_adds_own():
    lines = render_text(llama(2), format="csv").splitlines()
    at = lines[0].split(",").index("block.sigma_max")
    (row,) = (line for line in lines if line.startswith(f"{NAME}.1/add#0"))
    expected = llama(2).measurements.blocks[f"{NAME}.1/add#0"].sigma_max
    assert float(row.split(",")[at]) == expected
