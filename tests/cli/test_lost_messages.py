"""Messages that cannot be written change neither the exit code nor the report on stdout."""

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")


def run_command(*words, stderr):
    command = [sys.executable, "-m", "normdiag", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, timeout=60, check=False)
    return done.returncode, done.stdout


def run_without_stderr(*words):
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "normdiag"]
    done = subprocess.run(
        [*command, *map(str, words)], stdout=subprocess.PIPE, timeout=60, check=False
    )
    return done.returncode, done.stdout


def run_into_broken_pipe(*words):
    command = [sys.executable, "-m", "normdiag", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stderr.close()
        report = process.stdout.read()
        return process.wait(60), report


def run_onto_full_device(*words):
    with FULL.open("wb") as full:
        return run_command(*words, stderr=full)


WAYS = [
    pytest.param(
        run_onto_full_device, marks=pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
    ),
    run_into_broken_pipe,
    run_without_stderr,
]


@pytest.mark.parametrize("lose", WAYS)
@pytest.mark.parametrize(("fail_on", "code"), [("never", 0), ("info", 1)])
def test_a_gate_keeps_its_code_and_its_report(saved, lose, fail_on, code):
    words = ("check", saved("broken"), "--fail-on", fail_on)
    expected = run_command(*words, stderr=subprocess.PIPE)
    assert expected[0] == code
    assert lose(*words) == expected


@pytest.mark.parametrize("lose", WAYS)
def test_a_missing_report_is_3_and_a_wrong_option_is_2(folder, lose):
    assert lose("render", folder / "nothere.json") == (3, b"")
    assert lose("render", "--nope") == (2, b"")
