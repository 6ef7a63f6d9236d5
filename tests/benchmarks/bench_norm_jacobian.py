"""What the closed-form norm Jacobian costs, beside the dense SVD that it replaces.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_norm_jacobian.py

CPU seconds of this process. Gains are exp(0.3 N(0, 1)), so that no constant-gain short cut applies.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from normdiag.numerics.norm_jacobian import prepare_norm_spectrum


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def gain(features: int) -> Tensor:
    return torch.exp(0.3 * torch.randn(features, dtype=torch.float64))


def dense_jacobian(x: Tensor, gamma: Tensor, eps: float, centred: bool) -> Tensor:
    z = x - x.mean() if centred else x
    square = z.square().mean() + eps
    kept = torch.eye(len(x), dtype=x.dtype) - z[:, None] * z / (len(x) * square)
    return gamma[:, None] * (kept - 1 / len(x) if centred else kept) / square.sqrt()


def beside_dense(kind: str, features: int, tokens: int) -> None:
    gamma, x = gain(features), torch.randn(tokens, features, dtype=torch.float64)
    norm = prepare_norm_spectrum(gamma, kind=kind, features=features, eps=1e-5)
    found = norm.singular_extremes(x)
    each = cpu_seconds(lambda: norm.singular_extremes(x)) / tokens
    jacobian = dense_jacobian(x[0], gamma, 1e-5, kind == "layernorm")
    singular: list[Tensor] = []
    dense = cpu_seconds(lambda: singular.append(torch.linalg.svdvals(jacobian)))
    error = abs(float(found.sigma_max[0] / singular[0][0]) - 1)
    print(
        f"{kind:10} H={features}: {1e3 * each:.3f} ms a vector, dense svdvals {dense:.2f} s: "
        f"{dense / each:,.0f} times (sigma_max differs by {error:.0e})"
    )


def stack(kind: str, sites: int, features: int, tokens: int) -> None:
    gammas = [gain(features) for _ in range(sites)]
    x = torch.randn(tokens, features)

    def work() -> None:
        for gamma in gammas:
            prepare_norm_spectrum(gamma, kind=kind, features=features, eps=1e-5).singular_extremes(
                x
            )

    print(f"{kind:10} {sites} norms, H={features}, {tokens} tokens: {cpu_seconds(work):.3f} s")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--features", type=int, default=4096)
    options.add_argument("--tokens", type=int, default=256)
    chosen = options.parse_args()
    torch.manual_seed(0)
    for kind in ("layernorm", "rmsnorm"):
        stack(kind, 61, 576, 16)
        stack(kind, 61, 576, 64)
        beside_dense(kind, chosen.features, chosen.tokens)
