"""Precision against plain hooks, torch's own casts, and models really run in the format."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from normdiag.evidence.precision import Precision
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import RowSampling, run_forward
from normdiag.measure.passes.site_observer import MeasuredQuantities
from normdiag.measure.precision.precision import fitting_factor, measure_precision
from normdiag.measure.sites.site_statistics import SiteStatistics
from sample_models import half_square, large_stream
from tests.measure.forwards import accumulate_forward, accumulate_passes, measure_sites

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 48,
    "vocab_size": 64,
    "max_position_embeddings": 32,
}
IDS = torch.arange(3, 11).view(1, 8) * 7 % 61 + 3


def llama(**given) -> nn.Module:
    return build_attention(transformers.LlamaConfig(**SMALL, **given))


def build_attention(config: transformers.PreTrainedConfig, attention: str = "sdpa") -> nn.Module:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def measure_model(model: nn.Module, *args: torch.Tensor, **inputs: torch.Tensor) -> Precision:
    return precision_of(accumulate_forward(model, *args, **inputs))


def precision_of(assembly: SiteStatistics) -> Precision:
    found = measure_precision(assembly, assembly.compute(("stream-adds", "norm-inputs")))
    assert found is not None
    return found


class Hooks:
    """What every module took and gave, by its name."""

    def __init__(self, model: nn.Module, **inputs: torch.Tensor) -> None:
        self.took: dict[str, torch.Tensor] = {}
        self.gave: dict[str, torch.Tensor] = {}
        handles = [
            m.register_forward_hook(self._hook(n), with_kwargs=True)
            for n, m in model.named_modules()
        ]
        with torch.no_grad():
            model(**inputs)
        for handle in handles:
            handle.remove()

    def _hook(self, name: str):
        def hook(_module: nn.Module, args: tuple, kwargs: dict, output: object) -> None:
            first = output[0] if isinstance(output, tuple) else output
            given = next(iter((*args, *kwargs.values())), None)
            if isinstance(given, torch.Tensor) and isinstance(first, torch.Tensor):
                self.took[name], self.gave[name] = given.clone(), first.clone()

        return hook


def largest(*tensors: torch.Tensor) -> float:
    return max(float(t.double().abs().max()) for t in tensors)


class TestTheLargestValues:
    def test_of_a_gated_model(self) -> None:
        model = llama()
        hooks, found = Hooks(model, input_ids=IDS), measure_model(model, input_ids=IDS).max_abs
        for i in range(2):
            at = f"model.layers.{i}"
            after = hooks.took[f"{at}.post_attention_layernorm"]
            attention, mlp = hooks.gave[f"{at}.self_attn"], hooks.gave[f"{at}.mlp"]
            before = hooks.took[f"{at}.input_layernorm"]
            assert found[f"{at}/add#0"] == largest(before, attention, before + attention)
            assert found[f"{at}/add#1"] == largest(after, mlp, after + mlp)
            assert found[f"{at}.input_layernorm"] == largest(before)
            assert found[f"{at}.mlp/product#0"] == largest(hooks.took[f"{at}.mlp.down_proj"])
            for branch in ("self_attn", "mlp"):
                own = [k for k in found if k.startswith(f"{at}.{branch}.") and "/contraction" in k]
                linear = [v for k, v in hooks.gave.items() if k.startswith(f"{at}.{branch}.")]
                linear = [v for v in linear if v.shape[-1] in (16, 32, 48)]
                assert [found[k] for k in own] == [largest(*linear)]

    def test_the_head_is_on_no_branch(self) -> None:
        assert not [
            k for k in measure_model(llama(), input_ids=IDS).max_abs if k.startswith("lm_head")
        ]

    def test_padding_is_left_out(self) -> None:
        model, mask = llama(), torch.ones_like(IDS)
        mask[0, :3] = 0
        with torch.no_grad():
            model.model.embed_tokens.weight[IDS[0, 1]] *= 1000
        whole = measure_model(model, input_ids=IDS).max_abs
        padded = measure_model(model, input_ids=IDS, attention_mask=mask).max_abs
        first = "model.layers.0/add#0"
        assert padded[first] < 0.1 * whole[first]

    def test_squares_of_written_out_norms(self) -> None:
        model = llama()
        hooks, found = Hooks(model, input_ids=IDS), measure_model(model, input_ids=IDS)
        norms = [n for n in hooks.took if n.endswith("norm")]
        assert set(found.max_square) == set(norms) and len(norms) == 5
        for name in norms:
            assert found.max_square[name] == float(hooks.took[name].square().max())
            assert found.square_formats[name] == "float32"

    def test_a_squared_activation_is_a_product(self) -> None:
        """relu(x)^2, as Primer has it."""

        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

            def forward(self, x):
                return x + self.down(torch.relu(self.up(x)).square())

        torch.manual_seed(0)
        model, x = nn.Sequential(Block(), Block()), torch.randn(1, 4, 8)
        found = measure_model(model, x)
        assert found.max_abs["0/product#0"] == largest(torch.relu(model[0].up(x)).square())
        assert found.max_square == {}


def split(model: nn.Module, parts: list[torch.Tensor]) -> SiteStatistics:
    batches = [Batch(args=(), inputs={"input_ids": ids}, rows=(0,)) for ids in parts]
    return accumulate_passes(
        [run_forward(model, b, MeasuredQuantities(), RowSampling()) for b in batches]
    )


class TestAnySplit:
    MODEL = llama()

    @settings(deadline=None, max_examples=8)
    @given(st.permutations(range(4)), st.integers(1, 3), st.integers(0, 99))
    def test_of_the_probe_gives_the_same(self, order: list[int], cut: int, seed: int) -> None:
        ids = torch.randint(3, 64, (4, 6), generator=torch.Generator().manual_seed(seed))
        whole = measure_model(self.MODEL, input_ids=ids)
        parted = precision_of(split(self.MODEL, [ids[order[:cut]], ids[order[cut:]]]))
        assert parted.max_abs == pytest.approx(whole.max_abs, rel=1e-5)
        assert parted.max_square == pytest.approx(whole.max_square, rel=1e-5)
        for name, found in whole.formats.items():
            again = parted.formats[name]
            assert again.headroom_site == found.headroom_site
            assert again.headroom == pytest.approx(found.headroom, rel=1e-5)


def lost_by_torch(x: torch.Tensor, u: torch.Tensor, dtype: torch.dtype) -> float:
    skip = x.to(dtype)
    return float(((skip + u.to(dtype) == skip) & (u != 0)).sum() / (u != 0).sum())


class TestSwallowed:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("run_in", [torch.float32, torch.float16, torch.bfloat16])
    def test_as_torch_adds(self, dtype: torch.dtype, run_in: torch.dtype) -> None:
        model = llama()
        with torch.no_grad():
            model.model.embed_tokens.weight.mul_(100)
        model.to(run_in)
        hooks = Hooks(model, input_ids=IDS)
        found = (
            measure_model(model, input_ids=IDS)
            .formats[str(dtype).removeprefix("torch.")]
            .absorbed_updates
        )
        for i in range(2):
            at = f"model.layers.{i}"
            x, u = hooks.took[f"{at}.input_layernorm"], hooks.gave[f"{at}.self_attn"]
            expected = lost_by_torch(x[0], u[0], dtype)
            assert found[f"{at}/add#0"] == pytest.approx(expected, abs=1e-12)
            assert 0 < expected < 1

    def test_of_many_tokens_the_run_itself_counts_all_and_others_are_sampled(self) -> None:
        ids = torch.arange(3, 35).view(1, 32)
        model = llama().bfloat16()
        hooks = Hooks(model, input_ids=ids)
        x, u = (
            hooks.took["model.layers.0.input_layernorm"],
            hooks.gave["model.layers.0.self_attn"],
        )
        assembly = split(model, [ids])
        found = precision_of(assembly)
        name = "model.layers.0/add#0"
        exact = lost_by_torch(x, u, torch.bfloat16)
        assert found.formats["bfloat16"].absorbed_updates[name] == pytest.approx(exact, abs=1e-12)
        picked = assembly.add_samples[name][0].rows
        sampled = lost_by_torch(x[0, picked], u[0, picked], torch.float16)
        assert len(picked) == found.formats["float16"].absorbed_sample == 8
        assert found.formats["bfloat16"].absorbed_sample is None
        assert found.formats["float16"].absorbed_updates[name] == pytest.approx(sampled, abs=1e-12)


class TestRemedy:
    def test_the_scaled_model_runs_in_float16_and_says_the_same(self) -> None:
        """Everything written times the factor: twice its largest value fits, the output stays."""
        model, x = large_stream.build()
        found = measure_model(model, x).formats["float16"]
        remedy = found.remedies["blocks"]
        assert remedy.layer == 2 and remedy.factor == 0.25 and remedy.eps_share is not None
        scaled = copy.deepcopy(model)
        with torch.no_grad():
            for block in scaled.blocks:
                for parameter in block.fc.parameters():
                    parameter.mul_(remedy.factor)
            assert not copy.deepcopy(model).half()(x.half()).isfinite().all()
            torch.testing.assert_close(scaled(remedy.factor * x), model(x), rtol=2e-4, atol=2e-4)
            again = measure_model(scaled, remedy.factor * x)
            assert scaled.half()((remedy.factor * x).half()).isfinite().all()
        fitted = again.formats["float16"].headroom
        assert fitted is not None and 2 <= fitted < 4

    def test_with_epsilon_times_its_square_nothing_changes(self) -> None:
        model, x = large_stream.build()
        factor = measure_model(model, x).formats["float16"].remedies["blocks"].factor
        assert factor is not None
        scaled = copy.deepcopy(model)
        with torch.no_grad():
            for module in scaled.modules():
                if isinstance(module, nn.LayerNorm):
                    module.eps *= factor**2
                elif isinstance(module, nn.Linear):
                    module.weight.mul_(factor)
                    module.bias.mul_(factor)
            torch.testing.assert_close(scaled(factor * x), model(x), rtol=1e-6, atol=1e-6)

    def test_the_share_of_epsilon_is_what_the_scaled_model_shows(self) -> None:
        model, x = large_stream.build()
        remedy = measure_model(model, x).formats["float16"].remedies["blocks"]
        with torch.no_grad():
            for block in model.blocks:
                for parameter in block.fc.parameters():
                    parameter.mul_(remedy.factor)
        _, after = measure_sites(model, remedy.factor * x)
        shares = [norm.eps_share for norm in after.norms.values()]
        assert remedy.eps_share is not None
        assert remedy.eps_share.max == pytest.approx(max(s.max for s in shares), rel=1e-4)
        assert remedy.eps_share.median == pytest.approx(max(s.median for s in shares), rel=1e-4)

    def test_a_stream_that_is_read_without_a_norm_stays_in_float32(self) -> None:
        class Block(nn.Module):
            def __init__(self, size: float) -> None:
                super().__init__()
                self.fc, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
                nn.init.constant_(self.norm.weight, size)

            def forward(self, x):
                return x + self.norm(self.fc(x))

        torch.manual_seed(0)
        model = nn.Sequential(Block(1.0), Block(1.0), Block(1e5), Block(1.0))
        (remedy,) = measure_model(model, torch.randn(1, 4, 8)).formats["float16"].remedies.values()
        assert remedy.layer == 2 and remedy.factor is None and remedy.eps_share is None

    @given(st.floats(1e-3, 1e30))
    def test_it_is_the_largest_power_of_two_that_leaves_room_for_twice(self, size: float) -> None:
        factor = fitting_factor(size, 65504.0)
        assert factor is not None
        assert 2 * factor * size <= 65504.0
        assert factor == 1.0 or 4 * factor * size > 65504.0


class TestWhatOverflowedInTheRun:
    def test_has_no_headroom_in_its_own_format_and_tells_nothing_of_others(self) -> None:
        model, x = large_stream.build()
        found = measure_model(model.half(), x.half()).formats
        assert found["float16"].headroom == 0
        assert found["float16"].headroom_site == "blocks.2/add#0"
        assert found["float16"].remedies["blocks"].factor is None
        assert found["bfloat16"].remedies == {}
        headroom = found["bfloat16"].headroom
        assert headroom is not None and headroom > 1e30

    def test_squares_of_a_finite_input(self) -> None:
        model, x = half_square.build()
        found = measure_model(model, x)
        assert found.formats["float16"].square_headroom == 0
        assert found.square_formats["blocks.2.ln1"] == "float16"
        assert found.max_square["blocks.2.ln1"] == float("inf")
        assert found.max_abs["blocks.2.ln1"] < 400


class TestLostParameters:
    def test_epsilons_and_gains(self) -> None:
        model = llama(rms_norm_eps=1e-8)
        with torch.no_grad():
            model.model.norm.weight[3] = 500.0
        found = measure_model(model, input_ids=IDS).formats
        assert (
            len(found["float16"].underflowing_epsilons)
            == 5
            == len(found["float8_e5m2"].underflowing_epsilons)
        )
        assert found["bfloat16"].underflowing_epsilons == ()
        assert found["float8_e4m3fn"].overflowing_gains == ("model.norm",)
        assert found["float8_e5m2"].overflowing_gains == ()
