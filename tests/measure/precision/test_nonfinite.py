"""The origin of the first non-finite value is the operation that computed it, and no other."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import normdiag
from normdiag.evidence.nonfinite import FirstNonFinite
from normdiag.measure import forwards

NAN, INF = float("nan"), float("inf")


class Block(nn.Module):
    def __init__(self, width: int, branches: int = 1) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(width)
        self.fc = nn.ModuleList(nn.Linear(width, width) for _ in range(branches))

    def forward(self, x):
        h = self.ln(x)
        for fc in self.fc:
            x = x + fc(h)
        return x


class Stream(nn.Module):
    def __init__(self, width: int = 16, layers: int = 4, branches: int = 1) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, branches) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


def find_first_nonfinite(model: nn.Module, inputs: object) -> FirstNonFinite | None:
    return normdiag.inspect(model, inputs=inputs).measurements.first_nonfinite


def overflowing_model(branches: int = 1, at: int = 0) -> nn.Module:
    """Channel 5 holds 60000 after block 1; branch `at` of block 2 adds 30000 to it."""
    torch.manual_seed(0)
    model = Stream(branches=branches)
    with torch.no_grad():
        model.blocks[1].fc[0].bias[5] = 60000.0
        model.blocks[2].fc[at].bias[5] = 30000.0
    return model.half()


class TestOverflow:
    def test_the_add_is_blamed_with_both_operands(self) -> None:
        origin = find_first_nonfinite(overflowing_model(), torch.randn(2, 3, 16).half())
        assert origin is not None
        assert (origin.operation, origin.site, origin.layer) == ("add", "blocks.2/add#0", 2)
        assert (origin.module, origin.kind, origin.count) == ("blocks.2", "inf", 6)
        largest = sorted(o.max for o in origin.operands)
        assert largest == pytest.approx([30000, 60000], rel=1e-2)
        assert [o.nonfinite for o in origin.operands] == [0, 0]
        assert origin.line is not None
        assert origin.line.startswith("test_nonfinite.py:")

    def test_with_what_the_sum_would_have_been(self) -> None:
        origin = find_first_nonfinite(overflowing_model(), torch.randn(2, 3, 16).half())
        assert origin is not None
        assert origin.exact_max == pytest.approx(90000, rel=1e-2)
        assert origin.exact_max > 65504

    @pytest.mark.parametrize("at", [0, 1])
    def test_in_a_sum_of_two_branches(self, at: int) -> None:
        """x + f(h) + g(h) is one write-back of two additions; either may overflow."""
        origin = find_first_nonfinite(
            overflowing_model(branches=2, at=at), torch.randn(2, 3, 16).half()
        )
        assert origin is not None
        assert (origin.operation, origin.site, origin.layer) == ("add", "blocks.2/add#0", 2)

    def test_the_same_model_in_a_wider_format_has_none(self) -> None:
        assert find_first_nonfinite(overflowing_model().float(), torch.randn(2, 3, 16)) is None

    def test_in_place_adds_are_told_with_what_was_overwritten(self) -> None:
        class InPlace(Block):
            def forward(self, x):
                x += self.fc[0](self.ln(x))
                return x

        class Model(Stream):
            def forward(self, x):
                return super().forward(x.clone())

        model = overflowing_model()
        for i, block in enumerate(model.blocks):
            block.__class__ = InPlace
            assert isinstance(model.blocks[i], InPlace)
        model.__class__ = Model
        origin = find_first_nonfinite(model, torch.randn(2, 3, 16).half())
        assert origin is not None
        assert (origin.operation, origin.layer) == ("add", 2)
        assert [o.nonfinite for o in origin.operands] == [0, 0]
        assert max(o.max for o in origin.operands) == pytest.approx(60000, rel=1e-2)


class TestParameters:
    @pytest.mark.parametrize("value", [NAN, INF, -INF])
    def test_a_bad_gain_is_among_the_operands(self, value: float) -> None:
        model = Stream()
        with torch.no_grad():
            model.blocks[1].ln.weight[7] = value
        origin = find_first_nonfinite(model, torch.randn(2, 3, 16))
        assert origin is not None
        assert (origin.site, origin.layer) == ("blocks.1.ln", 1)
        bad = {o.name: o.nonfinite for o in origin.operands if o.nonfinite}
        assert bad == {"blocks.1.ln.weight": 1}

    def test_a_bad_bias_that_is_added_alone(self) -> None:
        class Shift(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.shift = nn.Parameter(torch.zeros(16))

            def forward(self, x):
                return x + self.shift

        model = Stream()
        model.blocks[1].ln = nn.Sequential(model.blocks[1].ln, Shift())
        with torch.no_grad():
            model.blocks[1].ln[1].shift[3] = INF
        origin = find_first_nonfinite(model, torch.randn(2, 3, 16))
        assert origin is not None
        assert origin.module == "blocks.1.ln.1"


class Attention(nn.Module):
    """One head; the mask's -inf is added to the scores, filled in, or given to the kernel."""

    def __init__(self, how: str, width: int = 16, positions: int = 3) -> None:
        super().__init__()
        self.ln, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.how = how
        mask = torch.full((positions, positions), -INF).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x, keep):
        q, k, v = self.qkv(self.ln(x)).chunk(3, -1)
        if self.how == "kernel":
            return x + scaled_dot_product_attention(q, k, v, attn_mask=self.mask.to(x.dtype))
        scores = q @ k.transpose(-1, -2)
        if self.how == "added":
            scores = scores + self.mask.to(x.dtype)
        elif self.how == "filled":
            scores = scores.masked_fill(self.mask < 0, -INF)
        else:  # from the inputs, through a logarithm
            scores = scores + keep.to(x.dtype).log()[:, None, :]
        return x + scores.softmax(-1) @ v


class Masked(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Attention(how) for _ in range(3))
        self.last = Block(16)

    def forward(self, x, keep):
        for block in self.blocks:
            x = block(x, keep)
        return self.last(x)


KEEP = torch.tensor([[1, 1, 1], [1, 1, 0]])


@pytest.mark.parametrize("how", ["kernel", "added", "filled", "logarithm"])
class TestMasks:
    def test_their_infinities_are_no_finding(self, how: str) -> None:
        inputs = {"x": torch.randn(2, 3, 16), "keep": KEEP}
        assert find_first_nonfinite(Masked(how), inputs) is None

    def test_and_do_not_hide_a_true_origin(self, how: str) -> None:
        torch.manual_seed(0)
        model = Masked(how)
        with torch.no_grad():
            model.last.fc[0].bias[5] = 60000.0
        x = torch.randn(2, 3, 16)
        x[..., 5] = 30000.0
        origin = find_first_nonfinite(model.half(), {"x": x.half(), "keep": KEEP})
        assert origin is not None
        assert (origin.operation, origin.module, origin.kind) == ("add", "last", "inf")


class TestInputs:
    def test_a_nan_input_is_the_origin(self) -> None:
        x = torch.randn(2, 3, 16)
        x[1, 2, 3] = NAN
        origin = find_first_nonfinite(Stream(), {"x": x})
        assert origin is not None
        assert (origin.operation, origin.module, origin.kind, origin.count) == (
            "input",
            "x",
            "nan",
            1,
        )
        assert [(o.name, o.nonfinite) for o in origin.operands] == [("x", 1)]

    def test_of_an_infinite_input_the_first_nan_names_it(self) -> None:
        x = torch.randn(2, 3, 16)
        x[1, 2, 3] = INF
        origin = find_first_nonfinite(Stream(), {"x": x})
        assert origin is not None
        assert (origin.operation, origin.site, origin.kind) == (
            "native_layer_norm",
            "blocks.0.ln",
            "nan",
        )
        assert [o.name for o in origin.operands if o.nonfinite] == ["x"]


class TestSecondForward:
    @pytest.fixture
    def located(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        calls: list[str] = []
        locate = forwards.locate_first_nonfinite

        def count_calls(*args):
            calls.append("locate")
            return locate(*args)

        monkeypatch.setattr(forwards, "locate_first_nonfinite", count_calls)
        return calls

    def test_only_where_the_first_was_not_finite(self, located: list[str]) -> None:
        find_first_nonfinite(Stream(), torch.randn(2, 3, 16))
        assert located == []
        find_first_nonfinite(overflowing_model(), torch.randn(2, 3, 16).half())
        assert located == ["locate"]

    def test_only_on_the_inputs_that_were_not_finite(self, located: list[str]) -> None:
        fine, bad = torch.zeros(1, 3, 16), torch.randn(1, 3, 16)
        bad[0, 0, 0] = NAN
        find_first_nonfinite(Stream(), [fine, bad, bad.clone()])
        assert located == ["locate"]

    def test_also_where_nothing_else_is_measured(self, located: list[str]) -> None:
        normdiag.inspect(overflowing_model(), inputs=torch.randn(2, 3, 16).half(), measure=())
        assert located == ["locate"]


class ScaledToFloat8(nn.Linear):
    """Quantises its input row by row with 448 / largest |x|, without a lower bound."""

    def forward(self, x):
        scale = 448.0 / x.abs().amax(-1, keepdim=True)
        return super().forward((x * scale).to(torch.float8_e4m3fn).to(x.dtype) / scale)


def test_a_row_of_zeros_scaled_to_float8_is_blamed_on_the_division() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16, bias=False), ScaledToFloat8(16, 16), nn.LayerNorm(16))
    x = torch.randn(2, 3, 16)
    x[0, 1] = x[1, 2] = 0.0
    origin = find_first_nonfinite(model, x)
    assert origin is not None
    assert (origin.operation, origin.kind, origin.count) == ("reciprocal", "inf", 2)
    assert origin.module == "1"
