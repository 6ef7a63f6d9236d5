"""Stacks by id and number, and what the errors of unknown names tell to type instead."""

from __future__ import annotations

import pytest

from tests import reports


def test_a_stack_by_id_by_number_and_from_the_end() -> None:
    stacks = reports.encoder_decoder().stacks
    assert list(stacks) == ["encoder.block", "decoder.block"]
    assert stacks[0] == stacks["encoder.block"]
    assert stacks[-1] == stacks["decoder.block"]
    assert len(stacks) == 2
    assert "encoder.block" in stacks and "other" not in stacks


def test_a_stack_has_its_own_part_of_the_measurements() -> None:
    report = reports.encoder_decoder()
    view, seen = report.stacks["decoder.block"], report.measurements
    assert view.structure.id == "decoder.block"
    assert view.growth == seen.growth["decoder.block"]
    assert view.closure == seen.closure["decoder.block"]
    ids = [add.id for add in report.architecture.residual_adds if add.stack == "decoder.block"]
    assert [add.id for add in view.adds] == list(view.stream) == ids
    assert all(view.stream[id] is seen.stream[id] for id in ids)
    assert {norm.stack for norm in view.norms} == {"decoder.block"}
    assert view.inputs.keys() == {norm.id for norm in view.norms}


def test_blocks_and_layers_of_a_stack() -> None:
    report = reports.llama(3)
    view = report.stacks[0]
    assert view.blocks == report.measurements.blocks
    assert view.layers == report.measurements.layers
    assert {block.span for block in view.blocks.values()} == {"add", "layer", "stack"}


@pytest.mark.parametrize("key", ["blocks", 2, -3, None])
def test_an_unknown_stack_names_those_there_are(key: object) -> None:
    with pytest.raises(KeyError, match=r"0 or 'encoder.block', 1 or 'decoder.block'"):
        reports.encoder_decoder().stacks[key]


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("growth", r"type report\.measurements\.growth$"),
        ("residual_adds", r"type report\.architecture\.residual_adds$"),
        ("target", r"type report\.subject\.target$"),
        ("class", r"type report\.subject\.class_$"),
        ("sumary", r"it has summary"),
        ("zzz", r"it has .*measurements.*to_frame.*verdict"),
    ],
)
def test_an_unknown_attribute_says_where_it_is(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=instead):
        getattr(reports.llama(3), name)


def test_a_private_name_is_just_missing() -> None:
    assert not hasattr(reports.llama(3), "_repr_mimebundle_")
