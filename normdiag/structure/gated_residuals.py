"""Gates on the skip of a residual add: g x + g' F(x), as in highway networks and GRUs.

Highway (Srivastava et al. 2015) has g' = 1 - g; the GRU of GTrXL (Parisotto et al. 2020) as well,
also written n + z (x - n).
"""

from __future__ import annotations

from normdiag.graph import Node
from normdiag.structure.aten_operations import skip_views
from normdiag.structure.dataflow import trace_origin
from normdiag.structure.gates import is_gate


def find_gated_skip(product: Node, branch: Node) -> Node | None:
    """Return x where `product` is g x, or z (x - n) with n the `branch`; None without a gate."""
    product = skip_views(product)
    if product.op != "mul" or len(product.parents) != 2:
        return None
    for value, gate in (product.parents, product.parents[::-1]):
        if value.shape != product.shape or not is_gate(gate):
            continue
        difference = trace_origin(value).node
        if difference.op == "sub" and len(difference.parents) == 2:
            x, subtracted = difference.parents
            is_branch = trace_origin(subtracted).node is trace_origin(branch).node
            return x if is_branch else None
        return value
    return None
