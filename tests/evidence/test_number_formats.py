"""The table of number formats against torch's."""

from __future__ import annotations

import pytest
import torch

from normdiag.evidence.number_formats import LOW_PRECISION_FORMATS, NUMBER_FORMATS, NumberFormat


@pytest.mark.parametrize("number_format", NUMBER_FORMATS.values(), ids=NUMBER_FORMATS)
def test_the_table_agrees_with_torch(number_format: NumberFormat) -> None:
    info = torch.finfo(getattr(torch, number_format.name))
    assert number_format.largest == info.max
    assert number_format.smallest_normal == info.smallest_normal
    assert number_format.epsilon == info.eps
    assert 8 * number_format.size_bytes == info.bits


@pytest.mark.parametrize("number_format", LOW_PRECISION_FORMATS, ids=lambda f: f.name)
def test_the_smallest_subnormal_is_the_first_code(number_format: NumberFormat) -> None:
    dtype = getattr(torch, number_format.name)
    code = torch.ones(1, dtype=torch.int16 if number_format.size_bytes == 2 else torch.int8)
    assert code.view(dtype).double() == number_format.smallest_subnormal
