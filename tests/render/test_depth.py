"""What is said of a stack's whole depth: only what was measured, and sinks where they stand out."""

from __future__ import annotations

from dataclasses import replace

from normdiag.render.sections.depth import describe_depth
from normdiag.report.report import Report
from tests.reports import bert, encoder_decoder, llama


def section_text(report: Report) -> str:
    (stack,) = report.architecture.stacks
    return "\n".join(describe_depth(report, stack))


def with_sink(ratio: float | None) -> Report:
    report = llama(3)
    stream = {id: replace(add, sink_ratio=ratio) for id, add in report.measurements.stream.items()}
    return replace(report, measurements=replace(report.measurements, stream=stream))


def test_the_largest_writers_are_named_with_their_sign() -> None:
    report = llama(3)
    stream = dict(report.measurements.stream)
    taken_back = stream["model.layers.1/add#0"]
    stream["model.layers.1/add#0"] = replace(
        taken_back, contribution=replace(taken_back.contribution, signed=-0.5, energy=0.4)
    )
    found = section_text(replace(report, measurements=replace(report.measurements, stream=stream)))
    assert (
        "mean over tokens 1 to 40 of sequence 0, run up to there: model.layers.1/add#0 40% (-50%), "
        "model.layers.0/add#0 9.1% (+8.3%)"
    ) in found
    assert "the stack's input" in found


def test_through_norms_there_are_no_writers() -> None:
    assert "writes into" not in section_text(bert())
    assert "Block influence" in section_text(bert())


def test_a_rank_is_of_the_tokens_without_the_first() -> None:
    assert (
        "Effective rank of tokens 1 to 40 of sequence 0, run up to there: 30.0 after layer 0, 29.0 "
        "after layer 2" in section_text(llama(3))
    )


def test_sinks_are_told_where_they_stand_out() -> None:
    assert "over that of the others: up to 39.0 at" in section_text(with_sink(39.0))
    for ratio in (1.1, None):
        assert "first tokens" not in section_text(with_sink(ratio))


def test_why_there_is_no_yardstick() -> None:
    report = llama(1)
    growth = {
        id: replace(law, init_note="it is too large")
        for id, law in report.measurements.growth.items()
    }
    found = section_text(replace(report, measurements=replace(report.measurements, growth=growth)))
    assert "Growth at initialisation: not measured (it is too large)." in found
    assert "not measured" not in section_text(report)


def test_nothing_measured_nothing_said() -> None:
    report = encoder_decoder()
    for stack in report.architecture.stacks:
        assert list(describe_depth(report, stack)) == []
