"""Texts come as they are, or not at all."""

import sys

import pytest

from normdiag.cli.input_texts import expand_stdin, read_text_file
from normdiag.errors import UsageError


def test_one_text_a_line_and_no_blank_ones(tmp_path):
    path = tmp_path / "probes.txt"
    path.write_bytes("one\r\n\n  two \n \nthrée \u2028 still\n".encode())
    assert read_text_file(path) == ("one", "  two ", "thrée \u2028 still")


def test_a_text_that_looks_like_json_is_a_text(tmp_path):
    path = tmp_path / "code.txt"
    path.write_text('{"text": "a"}\n', encoding="utf-8")
    assert read_text_file(path) == ('{"text": "a"}',)


def test_json_lines_hold_strings_or_objects_with_text(tmp_path):
    path = tmp_path / "probes.jsonl"
    path.write_text('{"text": "a\\nb", "id": 1}\n\n"c"\n', encoding="utf-8")
    assert read_text_file(path) == ("a\nb", "c")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "is not JSON"),
        ("3", 'has no "text"'),
        ("[]", 'has no "text"'),
        ('{"txt": "a"}', 'has no "text"'),
        ('{"text": null}', 'has no "text"'),
        ('{"text": ""}', 'has no "text"'),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, why):
    path = tmp_path / "probes.jsonl"
    path.write_text(f'"fine"\n\n{line}\n', encoding="utf-8")
    with pytest.raises(UsageError, match=why) as caught:
        read_text_file(path)
    assert caught.value.what.startswith("line 3 of ")


@pytest.mark.parametrize(("raw", "why"), [(b" \n\n", "holds no text"), (b"\xff\xfe", "not UTF-8")])
def test_a_file_without_text_is_refused(tmp_path, raw, why):
    path = tmp_path / "probes.txt"
    path.write_bytes(raw)
    with pytest.raises(UsageError, match=why):
        read_text_file(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_text_file(tmp_path / "none.txt")


def test_typed_texts_keep_their_order():
    assert expand_stdin(["b", " a "]) == ("b", " a ")


@pytest.mark.parametrize(("texts", "why"), [([""], "empty"), (["-", "-"], "twice")])
def test_invalid_texts_are_refused(texts, why):
    with pytest.raises(UsageError, match=why):
        expand_stdin(texts)


@pytest.mark.parametrize(("name", "line"), [("a.txt", "hello"), ("a.jsonl", '{"text": "hello"}')])
def test_a_byte_order_mark_is_no_text(tmp_path, name, line):
    path = tmp_path / name
    path.write_text(f"\ufeff{line}\n", encoding="utf-8")
    assert read_text_file(path) == ("hello",)


def test_a_closed_stdin_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="stdin is closed"):
        expand_stdin(["-"])
