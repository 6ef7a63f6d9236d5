"""The time of each stage is written once under `-v`, also after an error."""

import itertools

import pytest

from normdiag.cli.timing import StageTimer, report_timings
from normdiag.progress import NoProgress


class Listener:
    """Records its calls."""

    def __init__(self):
        self.calls = []

    def start_stage(self, what, total=None):
        self.calls.append(("start", what, total))

    def advance_stage(self, n=1):
        self.calls.append(("advance", n))

    def finish_stage(self):
        self.calls.append(("done",))


def ticking(step):
    """A clock that moves by `step` whenever it is read."""
    return (tick * step for tick in itertools.count()).__next__


def test_the_times_of_one_stage_add_up():
    timer = StageTimer(NoProgress(), wall_clock=ticking(1.0), cpu_clock=ticking(2.0))
    for what in ("loading", "running", "loading"):
        timer.start_stage(what)
        timer.finish_stage()
    assert timer.seconds == {"loading": (2.0, 4.0), "running": (1.0, 2.0)}
    assert timer.format_lines() == [
        "loading     2.0 s, CPU 4.0 s",
        "running     1.0 s, CPU 2.0 s",
    ]


def test_a_start_ends_the_running_stage():
    timer = StageTimer(NoProgress(), wall_clock=ticking(1.0), cpu_clock=ticking(1.0))
    timer.start_stage("loading")
    timer.start_stage("running")
    timer.finish_stage()
    timer.finish_stage()
    assert timer.seconds == {"loading": (1.0, 1.0), "running": (1.0, 1.0)}


def test_a_short_stage_has_no_line():
    timer = StageTimer(NoProgress(), wall_clock=ticking(0.001), cpu_clock=ticking(0.001))
    timer.start_stage("loading")
    timer.finish_stage()
    assert timer.format_lines() == []


def test_everything_is_passed_on():
    listener = Listener()
    timer = StageTimer(listener)
    timer.start_stage("loading", 3)
    timer.advance_stage(2)
    timer.finish_stage()
    assert listener.calls == [("start", "loading", 3), ("advance", 2), ("done",)]


def test_times_are_written_also_after_an_error(capsys, monkeypatch):
    monkeypatch.setattr("normdiag.cli.timing.MIN_SECONDS", 0.0)
    with pytest.raises(RuntimeError), report_timings(NoProgress(), verbose=True) as progress:
        progress.start_stage("loading \x1b[31m")
        raise RuntimeError
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "loading" in captured.err
    assert "\x1b" not in captured.err
    with report_timings(NoProgress(), verbose=False) as progress:
        progress.start_stage("loading")
        progress.finish_stage()
    assert capsys.readouterr().err == ""
