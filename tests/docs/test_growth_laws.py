"""The page on growth laws is what its generator makes, and keeps what it promises."""

from __future__ import annotations

import pytest

from docs.generators import growth_laws as page


@pytest.fixture(scope="module")
def trials() -> list[page.Trial]:
    """Other streams than those of the page."""
    return list(page.run_trials(page.SEED + 1, 4))


def test_the_committed_page_is_up_to_date() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.format_page()


def test_every_kind_is_tried(trials: list[page.Trial]) -> None:
    kinds = {(trial.law, trial.change, trial.adds) for trial in trials}
    assert len(kinds) == len(page.LAWS) * len(page.CHANGES) * len(page.ADDS)


def test_hardly_ever_another_law_is_named(trials: list[page.Trial]) -> None:
    assert sum(trial.is_wrong for trial in trials) <= 0.01 * len(trials)


def test_deep_streams_have_their_law_named(trials: list[page.Trial]) -> None:
    deep = [trial.is_right for trial in trials if trial.adds >= 24]
    assert sum(deep) >= 0.8 * len(deep)
