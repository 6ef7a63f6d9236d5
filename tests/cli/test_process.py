"""The program as a process of its own: pipes, encodings, and a machine without torch."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from normdiag.report.saved import load_report
from tests import reports

WITHOUT_TORCH = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ImportError(f"{name} is not on this machine", name=name)

sys.meta_path.insert(0, Refuse())
from normdiag.__main__ import main
main()
"""


def process(*words, code=None, **given):
    how = ["-m", "normdiag"] if code is None else ["-c", code]
    return subprocess.run(
        [sys.executable, *how, *map(str, words)], capture_output=True, timeout=120, **given
    )


def test_python_m_and_the_console_script_are_the_same(run):
    assert process("rules").stdout.decode() == run("rules").stdout
    assert process("rules", code="from normdiag.__main__ import main\nmain()").returncode == 0


@pytest.mark.parametrize("name", ["llama", "broken", "traced"])
def test_a_saved_report_is_shown_and_judged_where_torch_cannot_be_imported(run, saved, name):
    path = saved(name)
    shown = process("render", path, code=WITHOUT_TORCH)
    assert shown.returncode == 0
    assert shown.stdout.decode() == run("render", path).stdout
    judged = process("check", path, "-f", "json", "--json", "again.json", code=WITHOUT_TORCH)
    assert judged.returncode == (1 if name == "broken" else 0)
    assert load_report("again.json").findings


def test_a_target_where_torch_cannot_be_imported_is_a_clear_error():
    done = process("inspect", "package.module:factory", code=WITHOUT_TORCH)
    assert done.returncode == 3
    assert done.stderr.startswith(b"error: torch cannot be imported: torch is not on this machine")


def test_a_library_of_another_build_is_named_by_its_own_error():
    code = WITHOUT_TORCH.replace("name=name)", "name=name) from RuntimeError('no operator nms')")
    done = process("inspect", "package.module:factory", code=code)
    assert done.returncode == 3
    assert done.stderr.startswith(
        b"error: a library is installed and cannot be imported: RuntimeError: no operator nms"
    )
    assert b"torch is not on this machine" in done.stderr.replace(b"\n", b" ")


def onto(stdout, *words):
    """The program with its stdout on `stdout`."""
    command = [sys.executable, "-m", "normdiag", *map(str, words)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, timeout=120)


@pytest.mark.parametrize(
    "words",
    [("render", "-f", "json"), ("render", "--all"), ("check", "--fail-on", "info", "-f", "csv")],
    ids=" ".join,
)
def test_a_pipe_that_is_closed_early_is_quiet(saved, words):
    reader, writer = os.pipe()
    os.close(reader)
    command, *options = words
    with os.fdopen(writer, "wb") as closed:
        done = onto(closed, command, saved("llama"), *options)
    assert done.returncode == 141
    assert done.stderr.count(b"\n") <= 1
    assert b"rror" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_disk_is_not_an_internal_error(saved, form):
    with Path("/dev/full").open("wb") as full:
        done = onto(full, "render", saved("llama"), "-f", form)
    assert done.returncode == 2
    assert b"error: the report is incomplete: No space left on device\nhint: " in done.stderr
    assert b"internal error" not in done.stderr


def test_no_current_directory_is_usage(saved, folder):
    path, gone = saved("llama"), folder / "gone"
    gone.mkdir()
    code = f"import os; os.rmdir({str(gone)!r})\nfrom normdiag.__main__ import main\nmain()"
    done = process("check", path, code=code, cwd=gone)
    assert done.returncode == 2
    assert b"the current directory cannot be read" in done.stderr


def test_a_terminal_of_few_characters_gets_what_it_can_show(saved):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = process("render", saved("traced"), env=environment)
    assert done.returncode == 0
    assert done.stdout.isascii()


@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_hostile_names_reach_neither_stdout_nor_stderr_as_they_are(saved, form):
    done = process("render", saved("broken"), "-f", form)
    written = (done.stdout + done.stderr).decode()
    assert all(char.isprintable() or char == "\n" for char in written)
    assert "evil" in written


def test_colour_is_for_terminals(saved):
    assert b"\x1b" not in process("render", saved("llama")).stdout


LIBRARIES = "import pydantic.type_adapter, rich.console, rich.table, typer"


@pytest.mark.slow
def test_a_saved_report_is_checked_in_five_times_the_import_of_its_libraries(folder):
    """In time of the processor, since what else the machine does is not ours; the best of five."""
    path = folder / "large.json"
    reports.llama(60).save(path)

    def seconds(*words, **given):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert process(*words, **given).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    libraries = min(seconds(code=LIBRARIES) for _ in range(5))
    check = min(seconds("check", path, "--json", "again.json") for _ in range(5))
    assert check < 5 * libraries
