"""The same norm in every spelling: one tiny pre-norm transformer whose norm is an argument.

A spelling is a function of x (.., H), the gain (H,), the bias (H,) or None and epsilon. All of
`LAYER_NORMS` compute gain (x - mean(x)) / sqrt(var(x) + eps) + bias, all of `RMS_NORMS` compute
gain x / sqrt(mean(x^2) + eps). `VARIANTS` are their near relatives, each another function of x.

normdiag must find
    in every spelling of a family, as a module or inlined, the same Architecture: one stack
        `layers`: pre, 3 layers, 2 norms and 2 adds each, a final norm, epsilon 1e-5
    the same numbers of every norm, and each norm to replay
"""

import torch
import torch.nn.functional as F

from sample_models.spelled import Spelled

EPS = 1e-5


class LayerNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain, bias, eps):
        centred = x - x.mean(-1, keepdim=True)
        inverse = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(centred, inverse, gain)
        return centred * inverse * gain + bias

    @staticmethod
    def backward(ctx, dy):
        centred, inverse, gain = ctx.saved_tensors
        z, g = centred * inverse, dy * gain
        dx = (g - g.mean(-1, keepdim=True) - z * (g * z).mean(-1, keepdim=True)) * inverse
        return dx, (dy * z).flatten(0, -2).sum(0), dy.flatten(0, -2).sum(0), None


class RMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(x, gain, eps):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gain

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])
        ctx.eps = inputs[2]

    @staticmethod
    def backward(ctx, dy):
        x, gain = ctx.saved_tensors
        inverse = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + ctx.eps)
        z, g = x * inverse, dy * gain
        dx = (g - z * (g * z).mean(-1, keepdim=True)) * inverse
        return dx, (dy * z).flatten(0, -2).sum(0), None


def functional_ln(x, gain, bias, eps):
    return F.layer_norm(x, gain.shape, gain, bias, eps)


def native_ln(x, gain, bias, eps):
    return torch.native_layer_norm(x, gain.shape, gain, bias, eps)[0]


def affine_apart_ln(x, gain, bias, eps):
    return F.layer_norm(x, gain.shape, None, None, eps) * gain + bias


def var_sqrt_ln(x, gain, bias, eps):
    mean = x.mean(-1, keepdim=True)
    variance = x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * gain + bias


def var_mean_ln(x, gain, bias, eps):
    variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    return torch.addcmul(bias, (x - mean) * torch.rsqrt(variance + eps), gain)


def std_squared_ln(x, gain, bias, eps):
    std, mean = torch.std_mean(x, dim=-1, keepdim=True, correction=0)
    return gain * ((x - mean) / (std**2 + eps) ** 0.5) + bias


def two_pass_ln(x, gain, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    return bias + gain * (centred / (centred.pow(2).mean(-1, keepdim=True) + eps).sqrt())


def moments_ln(x, gain, bias, eps):
    mean, square = x.mean(-1, keepdim=True), (x * x).mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(square - mean * mean + eps) * gain + bias


def sums_ln(x, gain, bias, eps):
    width = x.shape[-1]
    mean = x.sum(-1, keepdim=True) / width
    variance = (x**2).sum(-1, keepdim=True) / width - mean**2
    return (x - mean).div(variance.add(eps).sqrt()).mul(gain).add(bias)


def in_fp32_ln(x, gain, bias, eps):
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    wide = centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * gain.float() + bias.float()).to(x.dtype)


def in_place_ln(x, gain, bias, eps):
    y = x - x.mean(-1, keepdim=True)
    s = y.pow(2).mean(-1, keepdim=True).add_(eps).sqrt_()
    return y.div_(s).mul_(gain).add_(bias)


def inverse_and_shift_ln(x, gain, bias, eps):
    variance, mean = torch.var_mean(x, -1, keepdim=True, unbiased=False)
    inverse = gain * torch.rsqrt(variance + eps)
    return x * inverse + (bias - mean * inverse)


def flat_ln(x, gain, bias, eps):
    centred = (rows := x.reshape(-1, x.shape[-1])) - rows.mean(1)[:, None]
    inverse = (centred.square().mean(1) + eps).pow(-0.5)
    return (centred * inverse.unsqueeze(1) * gain[None] + bias[None]).view_as(x)


def negated_ln(x, gain, bias, eps):
    centred = torch.sub(x, torch.mean(x, dim=(-1,), keepdim=True))
    variance = torch.mean(torch.square(centred), dim=(-1,), keepdim=True)
    return torch.add(bias, torch.mul(centred, gain) * torch.rsqrt(torch.add(variance, eps)))


def einsum_ln(x, gain, bias, eps):
    centred = x - torch.einsum("...d->...", x)[..., None] / x.shape[-1]
    variance = torch.einsum("...d,...d->...", centred, centred)[..., None] / x.shape[-1]
    return centred / torch.sqrt(variance + eps) * gain + bias


def function_ln(x, gain, bias, eps):
    return LayerNormFunction.apply(x, gain, bias, eps)


def functional_rms(x, gain, bias, eps):
    return F.rms_norm(x, gain.shape, gain, eps)


def llama_rms(x, gain, bias, eps):
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return gain * wide.to(x.dtype)


def t5_rms(x, gain, bias, eps):
    variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
    return gain * (x * torch.rsqrt(variance + eps)).to(x.dtype)


def gemma_rms(x, gain, bias, eps):
    wide = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    return (wide * (1.0 + (gain.float() - 1.0))).type_as(x)


def sqrt_rms(x, gain, bias, eps):
    return x / torch.sqrt((x**2).mean(dim=-1, keepdim=True) + eps) * gain


def product_rms(x, gain, bias, eps):
    return x.mul((x * x).mean(-1, True).add(eps).rsqrt()).mul(gain)


def power_rms(x, gain, bias, eps):
    return gain * (x * (torch.square(x).mean(-1, keepdim=True) + eps) ** -0.5)


def reciprocal_rms(x, gain, bias, eps):
    return x * (x.square().mean(-1, keepdim=True) + eps).sqrt().reciprocal() * gain


def one_over_rms(x, gain, bias, eps):
    return x * (1.0 / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)) * gain


def sum_rms(x, gain, bias, eps):
    return x / (x.pow(2).sum(-1, keepdim=True) / x.shape[-1] + eps).sqrt() * gain


def vector_norm_rms(x, gain, bias, eps):
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * torch.rsqrt(norm**2 / x.shape[-1] + eps) * gain


def scaled_norm_rms(x, gain, bias, eps):
    rms = torch.linalg.norm(x, dim=-1, keepdim=True) * x.shape[-1] ** -0.5
    return x / (rms.square() + eps).sqrt() * gain


def tensor_norm_rms(x, gain, bias, eps):
    return x / ((x.norm(2, dim=-1, keepdim=True) / x.shape[-1] ** 0.5).pow(2) + eps).sqrt() * gain


def einsum_rms(x, gain, bias, eps):
    square = torch.einsum("bsd,bsd->bs", x, x) / x.shape[-1]
    return torch.einsum("bsd,bs,d->bsd", x, torch.rsqrt(square + eps), gain)


def matmul_rms(x, gain, bias, eps):
    square = (x.unsqueeze(-2) @ x.unsqueeze(-1)).squeeze(-1) / x.shape[-1]
    return x * torch.rsqrt(square + eps) * gain


def vecdot_rms(x, gain, bias, eps):
    square = torch.linalg.vecdot(x, x).unsqueeze(-1) / x.shape[-1]
    return x * torch.rsqrt(square + eps) * gain


def in_place_rms(x, gain, bias, eps):
    y = x.clone()
    return y.mul_(y.pow(2).mean(-1, keepdim=True).add_(eps).rsqrt_()).mul_(gain)


def gain_first_rms(x, gain, bias, eps):
    return (gain * x) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def gain_in_root_rms(x, gain, bias, eps):
    return x * (gain * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def scaled_rms(x, gain, bias, eps):
    width = x.shape[-1]
    return x * width**0.5 * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + width * eps) * gain


def tensor_eps_rms(x, gain, bias, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + x.new_tensor(eps)) * gain


def reshaped_gain_rms(x, gain, bias, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gain.view(1, 1, -1)


def function_rms(x, gain, bias, eps):
    return RMSNormFunction.apply(x, gain, eps)


def unbiased_var_ln(x, gain, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(x.var(-1, keepdim=True) + eps) * gain + bias


def annotated_ln(x, gain, bias, eps):
    """The Annotated Transformer's: the unbiased deviation, epsilon outside the root."""
    return gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps) + bias


def biased_std_ln(x, gain, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    return gain * centred / (x.std(-1, keepdim=True, correction=0) + eps) + bias


def outside_rms(x, gain, bias, eps):
    """The RMSNorm authors': epsilon beside the root."""
    return gain * x / (x.norm(2, dim=-1, keepdim=True) * x.shape[-1] ** -0.5 + eps)


def floored_rms(x, gain, bias, eps):
    """lucidrains': a normalised direction of length sqrt(H), epsilon a floor of its length."""
    return F.normalize(x, dim=-1, eps=eps) * x.shape[-1] ** 0.5 * gain


def clamped_rms(x, gain, bias, eps):
    return x * x.square().mean(-1, keepdim=True).clamp(min=eps).rsqrt() * gain


def weightless_ln(x, gain, bias, eps):
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def weightless_rms(x, gain, bias, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


LAYER_NORMS = (
    functional_ln, native_ln, affine_apart_ln, var_sqrt_ln, var_mean_ln, std_squared_ln,
    two_pass_ln, moments_ln, sums_ln, in_fp32_ln, in_place_ln, inverse_and_shift_ln, flat_ln,
    negated_ln, einsum_ln, function_ln,
)  # fmt: skip
RMS_NORMS = (
    functional_rms, llama_rms, t5_rms, gemma_rms, sqrt_rms, product_rms, power_rms,
    reciprocal_rms, one_over_rms, sum_rms, vector_norm_rms, scaled_norm_rms, tensor_norm_rms,
    einsum_rms, matmul_rms, vecdot_rms, in_place_rms, gain_first_rms, gain_in_root_rms,
    scaled_rms, tensor_eps_rms, reshaped_gain_rms, function_rms,
)  # fmt: skip
VARIANTS = (
    unbiased_var_ln, annotated_ln, biased_std_ln, outside_rms, floored_rms, clamped_rms,
    weightless_ln, weightless_rms,
)  # fmt: skip


def build():
    return Spelled(moments_ln, EPS).eval(), torch.arange(32).view(2, 16) % 11
