"""A norm and a residual add are what they compute: one Architecture, however they are written
and in whatever mode they run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import normdiag
from normdiag.report.report import Report
from sample_models.norms import EPS, LAYER_NORMS, RMS_NORMS, VARIANTS, flat_ln
from sample_models.spelled import Norm, Spelled, plus
from tests.structure.signature import gains, signature

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of checkpointing and compiling
Spelling = Callable[..., torch.Tensor]
IDS = torch.arange(32).view(2, 16) % 11
SPELLINGS = (*LAYER_NORMS, *RMS_NORMS)
by_name = pytest.mark.parametrize("norm", SPELLINGS, ids=lambda norm: norm.__name__)


def model_of(norm: Spelling, add: Spelling = plus, inlined: bool = False) -> Spelled:
    return Spelled(norm, EPS, add=add, inlined=inlined, layers=2).eval()


@functools.cache
def reference(is_centred: bool, inlined: bool) -> Report:
    """The spelling of the family that torch itself offers, measured whole."""
    first = LAYER_NORMS[0] if is_centred else RMS_NORMS[0]
    return normdiag.inspect(model_of(first, inlined=inlined), inputs=IDS)


def worst_replay(report: Report) -> float:
    sites = {n.id for n in report.architecture.norms} | {
        a.id for a in report.architecture.residual_adds
    }
    assert sites == set(report.measurements.replay)
    return max(r.max_rel_error for r in report.measurements.replay.values())


@by_name
@pytest.mark.parametrize("inlined", [False, True], ids=["module", "inlined"])
def test_every_spelling_is_the_same_norm(norm: Spelling, inlined: bool) -> None:
    expected = reference(norm in LAYER_NORMS, inlined)
    report = normdiag.inspect(model_of(norm, inlined=inlined), inputs=IDS)
    assert signature(report) == signature(expected)
    assert gains(report) == pytest.approx(gains(expected), rel=1e-5)
    assert worst_replay(report) < 1e-5
    assert report.findings == () and report.coverage.unexplained_adds == ()
    for name, there in expected.measurements.norms.items():
        here = report.measurements.norms[name]
        for part in ("input_var", "eps_share", "amplification"):
            a, b = (dataclasses.asdict(getattr(n, part)) for n in (here, there))
            assert a == pytest.approx(b, rel=1e-4), (name, part)
        assert here.jacobian is not None and there.jacobian is not None
        a, b = (dataclasses.asdict(n.jacobian) for n in (here, there))
        assert {k: v for k, v in a.items() if k in ("sigma_max", "sigma_min", "kappa")} == {
            k: pytest.approx(v, rel=1e-3)
            for k, v in b.items()
            if k in ("sigma_max", "sigma_min", "kappa")
        }

    assert blocks(report) == pytest.approx(blocks(expected), rel=1e-4)


def blocks(report: Report) -> list[float]:
    """Largest and smallest singular value of every block, which no spelling changes."""
    return [s for b in report.measurements.blocks.values() for s in (b.sigma_max, b.sigma_min or 0)]


def test_the_reference_is_what_it_should_be() -> None:
    for is_centred, kind in ((True, "layernorm"), (False, "rmsnorm")):
        report = reference(is_centred, False)
        (stack,) = report.architecture.stacks
        assert (stack.id, stack.placement, stack.norm_kind) == ("layers", "pre", kind)
        assert (stack.layers, stack.norms_per_layer, stack.residual_adds_per_layer) == (2, 2, 2)
        assert stack.final_norm == "norm"
        norms = report.architecture.norms
        assert [n.id for n in norms[:3]] == [
            "layers.0.norm_1", "layers.0.norm_2", "layers.1.norm_1",
        ]  # fmt: skip
        assert {n.eps for n in norms} == {EPS}
        assert {n.axes for n in norms} == {(-1,)}
        inlined = reference(is_centred, True).architecture.norms
        assert [n.id for n in inlined[:3]] == [
            "layers.0/norm#0", "layers.0/norm#1", "layers.1/norm#0",
        ]  # fmt: skip


EXPECTED_VARIANTS = {
    "unbiased_var_ln": ("layernorm", EPS, True),
    "annotated_ln": ("layernorm", EPS, True),
    "biased_std_ln": ("layernorm", EPS, True),
    "outside_rms": ("rmsnorm", EPS, True),
    "floored_rms": ("rmsnorm", EPS / 4, True),  # max(|x|, eps) is 4 max(rms(x), eps / 4)
    "clamped_rms": ("rmsnorm", EPS, True),
    "weightless_ln": ("layernorm", EPS, False),
    "weightless_rms": ("rmsnorm", EPS, False),
}


@pytest.mark.parametrize("norm", VARIANTS, ids=lambda norm: norm.__name__)
@pytest.mark.parametrize("inlined", [False, True], ids=["module", "inlined"])
def test_near_relatives_are_norms_with_their_own_formula(norm: Spelling, inlined: bool) -> None:
    kind, eps, has_gain = EXPECTED_VARIANTS[norm.__name__]
    report = normdiag.inspect(model_of(norm, inlined=inlined), inputs=IDS)
    found = report.architecture.norms
    assert [n.role for n in found] == ["branch-input"] * 4 + ["final"]
    assert {n.kind for n in found} == {kind}
    assert [n.eps for n in found] == pytest.approx([eps] * 5)
    assert [n.gain is not None for n in found] == [has_gain] * 5
    assert worst_replay(report) < 1e-5


def _iadd(x: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    x += f
    return x


def _out(x: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    torch.add(x, f, out=y)
    return y


ADDS: dict[str, Spelling] = {
    "x + f": plus,
    "f + x": lambda x, f: f + x,
    "x += f": _iadd,
    "x.add_(f)": lambda x, f: x.add_(f),
    "f.add_(x)": lambda x, f: f.add_(x),
    "torch.add(x, f)": torch.add,
    "torch.add(x, f, alpha=1)": lambda x, f: torch.add(x, f, alpha=1),
    "torch.add(x, f, out=y)": _out,
    "x - (-f)": lambda x, f: x - (-f),
    "sum([x, f])": lambda x, f: sum([x, f]),
    "stack.sum(0)": lambda x, f: torch.stack([x, f]).sum(0),
    "stack.sum(-1)": lambda x, f: torch.stack([f, x], -1).sum(-1),
    "cat.sum(0)": lambda x, f: torch.cat([x[None], f[None]]).sum(0),
    "dropout": lambda x, f: x + F.dropout(f, 0.5, training=False),
    "clone": lambda x, f: x.clone() + f,
    "flat": lambda x, f: (x.flatten(0, 1) + f.flatten(0, 1)).view_as(x),
    "fp32": lambda x, f: (x.float() + f.float()).to(x.dtype),
    "addcmul": lambda x, f: torch.addcmul(x, f, torch.ones(())),
}


@pytest.mark.parametrize("add", ADDS)
def test_every_spelling_is_the_same_add(add: str) -> None:
    expected = reference(is_centred=True, inlined=False)
    measured = ("stream", "norms")  # torch has no derivative of what is written with `out=`
    report = normdiag.inspect(model_of(LAYER_NORMS[0], ADDS[add]), inputs=IDS, measure=measured)
    assert signature(report) == signature(expected)
    assert worst_replay(report) < 1e-5
    assert report.findings == () and report.coverage.unexplained_adds == ()
    for name, there in expected.measurements.stream.items():
        here = report.measurements.stream[name]
        for part in ("skip_norm", "branch_norm", "out_norm", "update_ratio", "cosine"):
            a, b = (dataclasses.asdict(getattr(n, part)) for n in (here, there))
            assert a == pytest.approx(b, rel=1e-4, abs=1e-6), (name, part)


def test_the_alpha_of_an_addition_is_a_scale_on_the_branch() -> None:
    apart = normdiag.inspect(model_of(LAYER_NORMS[0], lambda x, f: x + 2.0 * f), inputs=IDS)
    fused = model_of(LAYER_NORMS[0], lambda x, f: torch.add(x, f, alpha=2.0))
    report = normdiag.inspect(fused, inputs=IDS)
    assert signature(report) == signature(apart)
    assert {a.branch_scale.value for a in report.architecture.residual_adds} == {2.0}


def test_an_interpolation_is_found_and_replays() -> None:
    report = normdiag.inspect(
        model_of(LAYER_NORMS[0], lambda x, f: torch.lerp(x, f, 0.25)), inputs=IDS
    )
    assert len(report.architecture.residual_adds) == 4
    assert worst_replay(report) < 1e-5


def _eager(q: Any, k: Any, v: Any, is_causal: bool) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v


@contextmanager
def eager_attention() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", _eager)
        yield


def _with_hooks(model: nn.Module) -> nn.Module:
    """As other tools leave them: results and arguments replaced by copies."""
    for module in model.modules():
        module.register_forward_hook(lambda _, args, y: y.clone())
        module.register_forward_pre_hook(lambda _, args: tuple(a.clone() for a in args))
        module.register_full_backward_hook(lambda _, before, after: None)
    return model


def _checkpoint_model(model: nn.Module, use_reentrant: bool) -> nn.Module:
    for layer in model.layers:  # type: ignore[union-attr]
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=use_reentrant)
    return model


def _compiled_layers(model: nn.Module) -> nn.Module:
    for i, layer in enumerate(model.layers):  # type: ignore[arg-type]
        model.layers[i] = torch.compile(layer)  # type: ignore[index, operator]
    return model


def _compiled_in_place(model: nn.Module) -> nn.Module:
    model.compile()
    return model


@dataclasses.dataclass
class Output:
    hidden: torch.Tensor
    cache: None = None


class Wrapping(nn.Module):
    """A layer that gives back more than the stream."""

    def __init__(self, layer: nn.Module, wrap: Callable[[Any], Any]) -> None:
        super().__init__()
        self.forward_alone, self.wrap = layer.forward, wrap
        for name, child in layer.named_children():
            self.add_module(name, child)

    def forward(self, x: Any) -> Any:
        x = x.hidden if isinstance(x, Output) else x[0] if isinstance(x, tuple) else x
        return self.wrap(self.forward_alone(x))


def _wrap_model(model: nn.Module, wrap: Callable[[Any], Any]) -> nn.Module:
    layers = [Wrapping(layer, wrap) for layer in model.layers]  # type: ignore[union-attr]
    last = layers[-1]
    last.wrap = lambda x: x
    model.layers = nn.ModuleList(layers)
    return model


@dataclasses.dataclass(frozen=True)
class Mode:
    """How a model is built further, and what it runs under."""

    built: Callable[[nn.Module], nn.Module] = lambda model: model
    within: Callable[[], AbstractContextManager[Any]] = nullcontext
    note: str | None = None


_COMPILED = "torch.compile was disabled; the uncompiled code was run"
MODES = {
    "no_grad": Mode(within=torch.no_grad),
    "inference_mode": Mode(within=torch.inference_mode),
    "enable_grad": Mode(within=torch.enable_grad),
    "train": Mode(built=lambda m: m.train()),
    "autocast": Mode(within=lambda: torch.autocast("cpu", torch.bfloat16)),
    "float16": Mode(built=lambda m: m.half()),
    "bfloat16": Mode(built=lambda m: m.bfloat16()),
    "float64": Mode(built=lambda m: m.double()),
    "math attention": Mode(within=lambda: sdpa_kernel(SDPBackend.MATH)),
    "flash attention": Mode(within=lambda: sdpa_kernel(SDPBackend.FLASH_ATTENTION)),
    "eager attention": Mode(within=eager_attention),
    "hooks": Mode(built=_with_hooks),
    "checkpoint": Mode(built=lambda m: _checkpoint_model(m, use_reentrant=False)),
    "reentrant checkpoint": Mode(built=lambda m: _checkpoint_model(m, use_reentrant=True)),
    "compiled": Mode(built=torch.compile, note=_COMPILED),
    "compiled in place": Mode(built=_compiled_in_place, note=_COMPILED),
    "compiled layers": Mode(built=_compiled_layers, note=_COMPILED),
    "tuples": Mode(built=lambda m: _wrap_model(m, lambda x: (x, None))),
    "dataclasses": Mode(built=lambda m: _wrap_model(m, Output)),
}  # fmt: skip


def assert_same_in(mode: str, norm: Spelling, add: str = "x + f", inlined: bool = False) -> None:
    expected = reference(norm in LAYER_NORMS, inlined)
    model = MODES[mode].built(model_of(norm, ADDS[add], inlined))
    with MODES[mode].within():
        report = normdiag.inspect(model, inputs=IDS, measure=())
    assert signature(report) == signature(expected)
    assert report.subject.probe.note == MODES[mode].note
    assert gains(report) == pytest.approx(gains(expected), rel=5e-3, abs=1e-3)
    assert worst_replay(report) < 0.03  # half precision


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("norm", [LAYER_NORMS[0], RMS_NORMS[0]], ids=["fused ln", "fused rms"])
def test_every_mode_sees_the_same_architecture(mode: str, norm: Spelling) -> None:
    assert_same_in(mode, norm)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(sorted(MODES)), st.sampled_from(SPELLINGS), st.booleans())
@example("inference_mode", flat_ln, False)  # view_as(f, x) was a path from x past the norm
def test_every_spelling_in_every_mode(mode: str, norm: Spelling, inlined: bool) -> None:
    assert_same_in(mode, norm, inlined=inlined)


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(sorted(set(MODES) - {"autocast"})),  # out= takes no two precisions
    st.sampled_from(sorted(ADDS)),
)
def test_every_add_in_every_mode(mode: str, add: str) -> None:
    assert_same_in(mode, RMS_NORMS[0], add)


def _eps_tensor(norm: Norm) -> None:
    norm.eps = torch.tensor(EPS)


def _eps_parameter(norm: Norm) -> None:
    norm.eps = nn.Parameter(torch.tensor(EPS))


def _eps_buffer(norm: Norm) -> None:
    del norm.eps
    norm.register_buffer("eps", torch.tensor(EPS))


def _offset_gain(norm: Norm) -> None:
    function = norm.norm
    norm.gain = nn.Parameter(norm.gain.detach() - 1)
    norm.norm = lambda x, w, b, eps: function(x, 1 + w, b, eps)


def _exponential_gain(norm: Norm) -> None:
    function = norm.norm
    norm.gain = nn.Parameter(norm.gain.detach().log())
    norm.norm = lambda x, w, b, eps: function(x, w.exp(), b, eps)


def _shaped_gain(norm: Norm) -> None:
    norm.gain = nn.Parameter(norm.gain.detach().view(1, 1, -1))


def _half_gain(norm: Norm) -> None:
    function = norm.norm
    norm.gain = nn.Parameter(norm.gain.detach().half())
    norm.norm = lambda x, w, b, eps: function(x, w.to(x.dtype), b, eps)


HOLDINGS = (
    _eps_tensor, _eps_parameter, _eps_buffer, _offset_gain, _exponential_gain, _shaped_gain,
    _half_gain,
)  # fmt: skip
COMPOSED = {f.__name__: f for f in SPELLINGS}


@pytest.mark.parametrize("hold", HOLDINGS, ids=lambda hold: hold.__name__.strip("_"))
@pytest.mark.parametrize("name", ["two_pass_ln", "in_place_ln", "sqrt_rms", "in_place_rms"])
def test_gain_and_epsilon_may_be_held_in_any_way(hold: Callable[[Norm], None], name: str) -> None:
    norm = COMPOSED[name]
    model = model_of(norm)
    for module in model.modules():
        if isinstance(module, Norm):
            hold(module)
    report = normdiag.inspect(model, inputs=IDS)
    expected = reference(norm in LAYER_NORMS, inlined=False)
    assert signature(report) == signature(expected)
    assert gains(report) == pytest.approx(gains(expected), rel=1e-3)
    assert worst_replay(report) < 1e-5
