"""What each piece of work costs is told to the verbose, once, whatever happens."""

import itertools

import pytest

from normdiag.cli.costs import Costs, told
from normdiag.progress import Silent


class Listener:
    """Writes down what it is told."""

    def __init__(self):
        self.heard = []

    def start(self, what, total=None):
        self.heard.append(("start", what, total))

    def advance(self, n=1):
        self.heard.append(("advance", n))

    def done(self):
        self.heard.append(("done",))


def ticking(step):
    """A clock that moves by `step` whenever it is read."""
    return (tick * step for tick in itertools.count()).__next__


def test_costs_add_up_by_piece_of_work():
    costs = Costs(Silent(), clock=ticking(1.0), processor=ticking(2.0))
    for what in ("loading", "running", "loading"):
        costs.start(what)
        costs.done()
    assert costs.seconds == {"loading": (2.0, 4.0), "running": (1.0, 2.0)}
    assert costs.lines() == [
        "loading     2.0 s, 4.0 s of the processor",
        "running     1.0 s, 2.0 s of the processor",
    ]


def test_a_start_ends_what_still_runs():
    costs = Costs(Silent(), clock=ticking(1.0), processor=ticking(1.0))
    costs.start("loading")
    costs.start("running")
    costs.done()
    costs.done()
    assert costs.seconds == {"loading": (1.0, 1.0), "running": (1.0, 1.0)}


def test_what_costs_nothing_has_no_line():
    costs = Costs(Silent(), clock=ticking(0.001), processor=ticking(0.001))
    costs.start("loading")
    costs.done()
    assert costs.lines() == []


def test_everything_is_passed_on():
    listener = Listener()
    costs = Costs(listener)
    costs.start("loading", 3)
    costs.advance(2)
    costs.done()
    assert listener.heard == [("start", "loading", 3), ("advance", 2), ("done",)]


def test_the_verbose_are_told_also_after_an_error(capsys, monkeypatch):
    monkeypatch.setattr("normdiag.cli.costs._LEAST", 0.0)
    with pytest.raises(RuntimeError), told(Silent(), verbose=True) as progress:
        progress.start("loading \x1b[31m")
        raise RuntimeError
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "loading" in captured.err
    assert "\x1b" not in captured.err
    with told(Silent(), verbose=False) as progress:
        progress.start("loading")
        progress.done()
    assert capsys.readouterr().err == ""
