"""Settings are found upward, read strictly, and refused with the key named."""

from dataclasses import FrozenInstanceError

import pytest

from normdiag import config
from normdiag.errors import ExitCode, UsageError

FULL = """
select = ["ND3", "geometric-growth"]
ignore = { ND301 = "epsilon is set on purpose", ND4 = "" }
fail_on = "warning"
require_complete = true
measure = ["stream"]
clip = 0.5
texts = "probes/texts.jsonl"
device = "cuda:1"
dtype = "bfloat16"
seed = 7

[thresholds.epsilon-dominates]
eps_share = 0.05
channels = 3
"""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_every_key_is_read(tmp_path):
    path = write(tmp_path / "normdiag.toml", FULL)
    assert config.find_settings(tmp_path) == config.Settings(
        path=path,
        values={
            "select": ("ND3", "geometric-growth"),
            "ignore": ("ND301", "ND4"),
            "fail_on": "warning",
            "require_complete": True,
            "thresholds": {"epsilon-dominates": {"eps_share": 0.05, "channels": 3.0}},
            "measure": ("stream",),
            "clip": 0.5,
            "texts": tmp_path / "probes/texts.jsonl",
            "device": "cuda:1",
            "dtype": "bfloat16",
            "seed": 7,
        },
        ignore_reasons={"ND301": "epsilon is set on purpose"},
    )


def test_every_key_has_a_parser():
    types = {
        declared.value_type for declared in config.KEYS.values() if not declared.option.choices
    }
    assert types <= config._PARSERS.keys()


def test_remote_code_cannot_be_allowed_in_a_file():
    assert "trust_remote_code" not in config.KEYS


def test_settings_are_frozen():
    with pytest.raises(FrozenInstanceError):
        config.Settings().path = None


def test_no_file_is_no_settings(tmp_path):
    assert config.find_settings(tmp_path) == config.Settings()


def test_a_byte_order_mark_is_read_over(tmp_path):
    write(tmp_path / "normdiag.toml", "\ufeffseed = 1")
    assert config.find_settings(tmp_path).values == {"seed": 1}


def test_the_nearest_directory_wins(tmp_path):
    write(tmp_path / "normdiag.toml", "seed = 1")
    write(tmp_path / "inner/pyproject.toml", "[tool.normdiag]\nseed = 2")
    deep = tmp_path / "inner/a/b"
    deep.mkdir(parents=True)
    assert config.find_settings(tmp_path).values == {"seed": 1}
    assert config.find_settings(deep).values == {"seed": 2}


def test_a_pyproject_without_our_table_is_passed_over(tmp_path):
    write(tmp_path / "normdiag.toml", "seed = 1")
    write(tmp_path / "inner/pyproject.toml", "[tool.other]\nseed = 2")
    write(tmp_path / "inner/deeper/pyproject.toml", "tool = 3")
    assert config.find_settings(tmp_path / "inner/deeper").path == tmp_path / "normdiag.toml"


def test_normdiag_toml_is_preferred_to_the_pyproject_beside_it(tmp_path):
    write(tmp_path / "normdiag.toml", "seed = 1")
    write(tmp_path / "pyproject.toml", "[tool.normdiag]\nseed = 2")
    assert config.find_settings(tmp_path).values == {"seed": 1}


def test_an_empty_table_ends_the_search(tmp_path):
    write(tmp_path / "normdiag.toml", "seed = 1")
    write(tmp_path / "inner/pyproject.toml", "[tool.normdiag]")
    assert config.find_settings(tmp_path / "inner") == config.Settings(
        path=tmp_path / "inner/pyproject.toml"
    )


def test_ignore_may_be_a_list(tmp_path):
    write(tmp_path / "normdiag.toml", 'ignore = ["ND301", "ND4"]')
    assert config.find_settings(tmp_path).values == {"ignore": ("ND301", "ND4")}


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ('fail-on = "error"', "unknown key 'fail-on'", "did you mean fail_on?"),
        ("zzz = 1", "unknown key 'zzz'", "known keys: clip, device, dtype, fail_on, ignore, "),
        ("trust_remote_code = true", "unknown key 'trust_remote_code'", "known keys"),
        ('select = "ND3"', "select = 'ND3'", "list of strings"),
        ("select = [3]", "select = [3]", "list of strings"),
        ("ignore = { ND301 = 3 }", "ignore.ND301 = 3", "a string, the reason"),
        ("ignore = 3", "ignore = 3", "list of strings"),
        ('fail_on = "fatal"', "fail_on = 'fatal'", "error, warning, info, never"),
        ("fail_on = []", "fail_on = []", "error, warning, info, never"),
        ("require_complete = 1", "require_complete = 1", "true or false"),
        ("thresholds = 1", "thresholds = 1", "table"),
        ("thresholds.ND301 = 1", "thresholds.ND301 = 1", "table of threshold = number"),
        ('thresholds.ND301.a = "1"', "thresholds.ND301.a = '1'", "finite number"),
        ("thresholds.ND301.a = true", "thresholds.ND301.a = True", "finite number"),
        ("thresholds.ND301.a = nan", "thresholds.ND301.a = nan", "finite number"),
        ("thresholds.ND301.a = -inf", "thresholds.ND301.a = -inf", "finite number"),
        (f"thresholds.ND301.a = 1{'0' * 400}", "thresholds.ND301.a = 1000", "finite number"),
        ("max = 1", "max = 1", 'table of "path" = number'),
        ('max = { "a.b" = "1" }', "max.a.b = '1'", "finite number"),
        ("min.a.b = nan", "min.a.b = nan", "finite number"),
        ("min.a.b = true", "min.a.b = True", "finite number"),
        ("margin = -0.1", "margin = -0.1", "0 or more"),
        ("margin = inf", "margin = inf", "finite number"),
        ('measure = ["weather"]', "measure = ['weather']", "stream"),
        ("measure = [1]", "measure = [1]", "list of strings"),
        ("clip = 0", "clip = 0", "above 0"),
        ("clip = inf", "clip = inf", "finite"),
        ("texts = 1", "texts = 1", "must be a string"),
        ("device = 0", "device = 0", "must be a string"),
        ('dtype = "int8"', "dtype = 'int8'", "float16"),
        ("seed = true", "seed = True", "whole number"),
        ("seed = 1.5", "seed = 1.5", "whole number"),
        (f"seed = {2**63}", f"seed = {2**63}", f"at most {2**63 - 1}"),
        ("seed = -1", "seed = -1", "0 or more"),
    ],
)
def test_what_is_refused_names_the_file_the_key_and_the_value(tmp_path, text, what, hint):
    path = write(tmp_path / "normdiag.toml", text)
    with pytest.raises(UsageError) as caught:
        config.find_settings(tmp_path)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.what.startswith(f"{path}: ")
    assert what in caught.value.what
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "raw",
    [b"seed = ", b"seed = \xff", b"seed = 1" + b"0" * 5000],
    ids=["broken", "not UTF-8", "endless integer"],
)
def test_what_is_not_toml_is_refused_with_the_file_named(tmp_path, raw):
    path = tmp_path / "normdiag.toml"
    path.write_bytes(raw)
    with pytest.raises(UsageError, match="is not valid TOML") as caught:
        config.find_settings(tmp_path)
    assert str(path) in caught.value.what


def test_a_tool_table_that_is_no_table_is_refused(tmp_path):
    write(tmp_path / "pyproject.toml", "[tool]\nnormdiag = 1")
    with pytest.raises(UsageError, match="must be a table"):
        config.find_settings(tmp_path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "normdiag.toml", "seed = 1")

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(type(path), "read_text", refuse)
    with pytest.raises(UsageError, match="Permission denied"):
        config.find_settings(tmp_path)


@pytest.mark.parametrize(
    "text",
    ['[max]\n"a.b[c.d].e" = 3\na.f = 4', 'max = { "a.b[c.d].e" = 3, "a.f" = 4.0 }'],
)
def test_a_bound_is_a_path_in_quotes_or_in_tables(tmp_path, text):
    write(tmp_path / "normdiag.toml", text)
    assert config.find_settings(tmp_path).values["max"] == {"a.b[c.d].e": 3.0, "a.f": 4.0}
