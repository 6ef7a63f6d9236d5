from __future__ import annotations

from normdiag.evidence.coverage import Coverage
from tests.rules.builders import evidence, judge_rule, make_adds, one, run_rule, stack


def test_copies_are_named_with_what_they_repeat() -> None:
    seen = evidence(
        stacks=(stack(14),),
        adds=make_adds(14),
        duplicates={"layers": ((2, 6, 10), (3, 7, 11), (4, 8, 12), (5, 9, 13))},
    )
    finding = one(seen, "ND406")
    assert (finding.severity, finding.confidence, finding.ids) == ("warning", "high", ("layers",))
    assert finding.value == 12
    assert "8 layers of 14 of layers repeat another" in finding.message
    assert "layers 2, 6 and 10; layers 3, 7 and 11;" in finding.message
    assert "(12 pairs)" in finding.message


def test_one_pair() -> None:
    seen = evidence(stacks=(stack(4),), duplicates={"layers": ((0, 3),)})
    message = one(seen, "ND406").message
    assert message.startswith("1 layer of 4 of layers repeats another layer exactly: ")
    assert message.endswith("layers 0 and 3 (1 pair)")


def test_many_groups_are_cut_short() -> None:
    groups = tuple((k, k + 20) for k in range(20))
    seen = evidence(stacks=(stack(40),), duplicates={"layers": groups})
    assert "and 14 more groups (20 pairs)" in one(seen, "ND406").message


def test_layers_that_differ_are_silent() -> None:
    seen = evidence(stacks=(stack(4),), duplicates={"layers": ()})
    assert run_rule(seen, "ND406") == ()


def test_without_layers_to_compare_it_is_skipped() -> None:
    streams = Coverage(measures=("stream-adds",))
    (skip,) = judge_rule(evidence(stacks=(stack(4),), coverage=streams), "ND406").skipped
    assert "it was not measured" in skip.why
