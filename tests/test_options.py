"""Options are declared once, for Python, the command line and the settings file."""

from dataclasses import FrozenInstanceError, fields

import pytest

from normdiag.cli.option_groups import parameter_name
from normdiag.cli.options import FORMATS, SECOND_TARGET
from normdiag.errors import UsageError
from normdiag.gate_options import CheckOptions
from normdiag.option_group import declared_options
from normdiag.options import (
    InputOptions,
    JudgingOptions,
    LoadingOptions,
    MeasuringOptions,
    Options,
)
from normdiag.render.formats import FORMATS as RENDERERS

GROUPS = (LoadingOptions, InputOptions, MeasuringOptions, JudgingOptions)


def test_options_are_the_fields_of_the_groups():
    names = {item.name for group in GROUPS for item in fields(group)}
    assert {item.name for item in fields(Options)} == names | {"command", "tokenizer"}


def test_every_field_of_a_group_is_declared():
    for group in (*GROUPS, CheckOptions):
        names = {item.name for item in fields(group)}
        assert {declared.name for declared in declared_options(group)} == names


def test_options_are_valid_where_a_group_is_expected():
    assert all(isinstance(Options(), group) for group in GROUPS)


def test_every_declaration_has_help():
    for group in (*GROUPS, CheckOptions):
        assert all(declared.option.help.endswith(".") for declared in declared_options(group))


def test_options_of_the_second_target_are_those_that_say_so():
    assert [parameter_name(declared) for declared in SECOND_TARGET.options] == [
        "b_device",
        "b_device_map",
        "b_dtype",
        "b_revision",
        "b_adapter",
    ]


def test_every_format_of_the_command_line_has_a_renderer():
    assert set(FORMATS) == set(RENDERERS["inspect"])


def test_strings_and_lists_become_tuples():
    options = Options(measure="stream,norms", texts="one", select=["ND3"], ignore="ND301")
    assert options.measure == ("stream", "norms")
    assert (options.texts, options.select, options.ignore) == (("one",), ("ND3",), ("ND301",))
    assert Options(measure=[]).measure == ()


def test_options_are_frozen():
    with pytest.raises(FrozenInstanceError):
        Options().seed = 1


@pytest.mark.parametrize(
    ("values", "what", "hint"),
    [
        ({"clip": 0.0}, "clip = 0.0", "above 0"),
        ({"clip": float("nan")}, "clip = nan", "a finite number"),
        ({"seed": -1}, "seed = -1", "0 or more"),
        ({"seed": 2**63}, f"seed = {2**63}", f"at most {2**63 - 1}"),
        ({"dtype": "int8"}, "dtype = 'int8'", "one of float64, float32, float16, bfloat16"),
        ({"measure": "weather"}, "'weather'", "stream"),
    ],
)
def test_an_invalid_value_is_refused(values, what, hint):
    with pytest.raises(UsageError) as caught:
        Options(**values)
    assert what in caught.value.what
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": "1"}, "seed = '1'.*\n.*a number"),
        ({"clip": None}, "clip = None.*\n.*left out"),
        ({"measure": None}, "measure = None.*\n.*left out"),
        ({"select": None}, "select = None.*\n.*left out"),
        ({"texts": ["a", 1]}, "texts holds 1"),
        ({"texts": ["a"], "inputs": {}}, "inputs and texts exclude each other"),
        ({"ids": [(1, 2)], "texts": ["a"]}, "ids and texts exclude each other"),
    ],
)
def test_values_of_a_wrong_kind_are_refused(given: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Options(**given)
