"""Fixtures: the reports on a module's `case`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import normdiag
from tests.oracle.case import Case


@pytest.fixture(scope="module")
def report(case: Case) -> dict[str, Any]:
    """Everything measured, on every token."""
    return _inspect(case, ("stream", "norms", "jacobians"))


@pytest.fixture(scope="module")
def jacobian_case(case: Case) -> Case:
    """The case on few tokens, where a dense Jacobian of each token would take long."""
    return replace(case, batches=case.few) if case.few else case


@pytest.fixture(scope="module")
def jacobian_report(case: Case, jacobian_case: Case, report: dict[str, Any]) -> dict[str, Any]:
    """The report on those tokens."""
    return report if jacobian_case is case else _inspect(jacobian_case, ("jacobians",))


def _inspect(case: Case, measure: tuple[str, ...]) -> dict[str, Any]:
    target = case.model if case.target is None else case.target
    options = {"inputs": case.batches, "measure": measure, "all_tokens": True}
    return normdiag.inspect(target, **options).to_dict()
