"""What a near-norm does to sizes: its own operations run again on recorded rows, as they are and
doubled, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from normdiag.evidence.near_norms import NearNorm
from normdiag.evidence.statistics import Range
from normdiag.graph import Node
from normdiag.measure.sites.samples import NormSample
from normdiag.structure.algebraic_forms import DetectedNorm, uncast_value
from normdiag.structure.aten_operations import CASTS


def measure_near_norm(norm: DetectedNorm, samples: Sequence[NormSample]) -> NearNorm | None:
    """Compare rms(y) with rms(x) over the sampled rows, before gain and bias.

    p of rms(y(2 x)) = 2^p rms(y(x)), its median over rows, is 0 where the output's size does not
    follow the input's. None where the operations cannot be run on rows alone.
    """
    rows = torch.cat([sample.input_rows.double() for sample in samples])
    rows = rows[rows.isfinite().all(-1)]
    if not rows.numel():
        return None
    try:
        sizes, doubled = (
            _row_rms(_run_operations(norm, factor * rows)).numpy() for factor in (1.0, 2.0)
        )
    except (RuntimeError, TypeError, NotImplementedError):  # needs more than rows: a fixed shape
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = np.log2(doubled / sizes)
    exponents, sizes = exponents[np.isfinite(exponents)], sizes[np.isfinite(sizes)]
    if not exponents.size:
        return None
    return NearNorm(
        size_exponent=float(np.median(exponents)),
        output_rms=Range(
            min=float(sizes.min()),
            median=float(np.median(sizes)),
            p95=float(np.quantile(sizes, 0.95)),
            max=float(sizes.max()),
        ),
        input_rms=float(np.median(_row_rms(rows).numpy())),
    )


def _row_rms(rows: torch.Tensor) -> torch.Tensor:
    return rows.square().mean(-1).sqrt()


def _run_operations(norm: DetectedNorm, rows: torch.Tensor) -> torch.Tensor:
    """y of each row. Raises TypeError for an operand that is neither x nor a number."""
    rank, axis = len(norm.source.shape), norm.axes[-1]
    x = rows.reshape(*[1] * (rank - 2), *rows.shape).movedim(-1, axis)
    values: dict[Node, torch.Tensor] = {norm.source: x}

    def read_operand(operand: Any) -> Any:
        if isinstance(operand, (list, tuple)):
            return type(operand)(map(read_operand, operand))
        return compute_value(operand) if isinstance(operand, Node) else operand

    def compute_value(node: Node) -> torch.Tensor:
        if node not in values:
            if not node.is_data:
                raise TypeError(f"the value of {node} is unknown")
            values[node] = run_operation(node)
        return values[node]

    def run_operation(node: Node) -> torch.Tensor:
        if node.op in CASTS or node.op in ("expand", "expand_as"):
            return compute_value(node.parents[0])
        if uncast_value(node) is not node:
            return compute_value(uncast_value(node))
        operation = getattr(torch.ops.aten, node.op)
        result = operation(*map(read_operand, node.args), **node.kwargs)
        return result if isinstance(result, torch.Tensor) else result[node.output]

    y = compute_value(norm.node)
    return y.movedim(axis, -1).reshape(rows.shape)
