from __future__ import annotations

import pytest

from normdiag.errors import UsageError
from normdiag.option_values import parse_memory_limits


def test_limits_are_read_from_text_and_from_mappings() -> None:
    assert parse_memory_limits("0=20GiB, cpu = 1.5 GB") == {0: "20GiB", "cpu": "1.5 GB"}
    assert parse_memory_limits({0: 10, "cpu": "4mb"}) == {0: 10, "cpu": "4mb"}
    assert parse_memory_limits({"1": "4GB"}) == {1: "4GB"}


@pytest.mark.parametrize("limits", ["0", "0=", "0=-1GB", "0=1XB", "cuda:0=1GB", "-1=1GB", {0.5: 1}])
def test_others_are_refused(limits: object) -> None:
    with pytest.raises(UsageError) as raised:
        parse_memory_limits(limits)  # type: ignore[arg-type]
    assert raised.value.hint
