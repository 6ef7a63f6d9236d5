"""A file is there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from normdiag.errors import ExitCode, UsageError
from normdiag.report import atomic


def test_it_writes_and_replaces(tmp_path):
    path = tmp_path / "report.json"
    atomic.write_atomically(path, "old ü\n")
    atomic.write_atomically(path, "new\n")
    assert path.read_bytes() == b"new\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "interruption", [KeyboardInterrupt, OSError(28, "No space left on device")]
)
@pytest.mark.parametrize("step", ["replace", "open"])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch, interruption, step
):
    path = tmp_path / "report.json"
    path.write_text("old")

    def interrupted(*_, **__):
        raise interruption

    monkeypatch.setattr(Path, step, interrupted)
    with pytest.raises((KeyboardInterrupt, UsageError)):
        atomic.write_atomically(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_that_cannot_be_encoded_leaves_the_old_file(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        atomic.write_atomically(path, "half\udcff")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_it_keeps_the_mode_and_follows_a_link(tmp_path):
    real = tmp_path / "real.json"
    real.write_text("old")
    real.chmod(0o600)
    link = tmp_path / "link.json"
    link.symlink_to(real)
    atomic.write_atomically(link, "new")
    assert link.is_symlink() and real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="descriptors with names are Unix's")
def test_a_pipe_without_a_name_is_written_to():
    """As a shell's `>(command)` is, or /dev/stdout where stdout is a pipe."""
    reader, writer = os.pipe()
    try:
        atomic.write_atomically(Path(f"/dev/fd/{writer}"), "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX")
def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        atomic.write_atomically(pipe, "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_place_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="No such file") as caught:
        atomic.write_atomically(tmp_path / "absent" / "report.json", "x")
    assert caught.value.exit_code is ExitCode.USAGE
    assert "folder that exists" in caught.value.hint
    with pytest.raises(UsageError, match="directory"):
        atomic.write_atomically(tmp_path, "x")
