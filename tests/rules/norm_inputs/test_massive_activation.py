from __future__ import annotations

import math

import pytest

from normdiag.evidence.stream import TokenPosition
from tests import factories
from tests.rules.builders import evidence, make_adds, one, run_rule, stack


def stream(
    largest: dict[int, tuple[float, float]], layers: int = 32, at: dict[int, int] | None = None
):
    """Layer -> (max |y|, median |y|), a ratio of 10 elsewhere; layer -> position, else 5."""
    written = make_adds(layers)
    measured = {
        add.id: factories.add_measurement(
            max_abs=largest.get(add.layer, (2.0, 0.2))[0],
            median_abs=largest.get(add.layer, (2.0, 0.2))[1],
            max_channel=1415,
            max_token=TokenPosition(sequence=1, position=(at or {}).get(add.layer, 5)),
        )
        for add in written
    }
    return evidence(stacks=(stack(layers),), adds=written, stream=measured)


def test_an_even_stream_is_silent() -> None:
    assert run_rule(stream({}), "ND304") == ()


def test_llama_2() -> None:
    finding = one(stream(dict.fromkeys(range(2, 31), (2622.0, 0.2))), "ND304")
    assert (finding.severity, finding.confidence) == ("info", "high")
    assert (finding.value, finding.threshold) == (2622.0, 100)
    assert len(finding.ids) == 29
    assert "2,622 in channel 1415 at position 5 of sequence 1" in finding.message
    assert "13,110 times the median (threshold 1000)" in finding.message
    assert finding.message.endswith(
        "at layers.2/add#0, and at 29 adds in all, layers 2-30 of layers"
    )


@pytest.mark.parametrize(
    ("largest", "median", "severity"),
    [
        (500.0, 0.2, "info"),
        (150.0, 0.2, None),  # 750 times the median
        (100.0, 0.1, "info"),  # not above 100
        (60.05, 0.0191, "info"),  # 3143 times the median, but small
        (1e6, 1e3, "info"),
        (1e6, 1.1e3, None),  # everything is large
        (500.0, 0.0, "info"),  # most of the stream is zero
        (0.0, 0.0, None),
    ],
)
def test_both_conditions_of_the_definition(
    largest: float, median: float, severity: str | None
) -> None:
    findings = run_rule(stream({3: (largest, median)}), "ND304")
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


def test_what_is_nearly_massive_says_so() -> None:
    finding = one(stream({3: (60.0, 0.02)}), "ND304")
    assert (
        finding.confidence == "low"
        and "below the massive-activation threshold of 100" in finding.message
    )


def test_an_attention_sink_at_the_first_token_is_no_warning() -> None:
    sink = one(stream({3: (500.0, 0.2)}, at={3: 0}), "ND304")
    assert (sink.severity, sink.confidence, sink.value) == ("info", "high", 500.0)
    assert "at position 0 of sequence 1" in sink.message


def test_a_later_token_is_judged_beside_the_first_one() -> None:
    findings = run_rule(stream({3: (900.0, 0.2), 4: (500.0, 0.2)}, at={3: 0}), "ND304")
    assert [(f.severity, f.ids) for f in findings] == [
        ("info", ("layers.4/add#0",)),
        ("info", ("layers.3/add#0",)),
    ]


def test_a_single_add_is_named_once() -> None:
    assert one(stream({3: (500.0, 0.2)}), "ND304").message.count("layers.3/add#0") == 1


def test_where_it_comes_up_is_the_first_and_not_the_worst() -> None:
    finding = one(stream({2: (500.0, 0.2), 3: (900.0, 0.2), 4: (700.0, 0.2)}), "ND304")
    assert finding.ids == ("layers.3/add#0", "layers.4/add#0", "layers.2/add#0")
    assert "max |y| is 500 in channel" in finding.message and "2,500 times" in finding.message
    assert "at layers.2/add#0, and at 3 adds" in finding.message
    assert "up to 900 at layers.3/add#0" in finding.message and finding.value == 900.0
    assert "--site 'layers.2/add#0'" in finding.advice


def test_an_infinity_is_the_finding_of_another_rule() -> None:
    for pair in ((math.inf, math.nan), (math.nan, math.nan), (500.0, math.nan), (math.inf, 0.2)):
        assert run_rule(stream({3: pair}), "ND304") == ()


def test_the_definition_can_be_set() -> None:
    assert run_rule(stream({3: (500.0, 0.2)}), "ND304", ratio=3000) == ()
    assert one(stream({3: (90.0, 0.01)}), "ND304", magnitude=50).severity == "info"
