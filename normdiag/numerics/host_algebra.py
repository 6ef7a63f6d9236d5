"""Products and eigenvalues of matrices in float64, by numpy where they lie on the host.

Torch's wheels bring another BLAS than numpy's. Where a processor is not one that it is written for,
numpy's takes half of its time for both (576 x 576: 4 and 15 ms beside 8 and 22).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def multiply_matrices(a: Tensor, b: Tensor) -> Tensor:
    """A B, of the operands' dtype."""
    if a.device.type != "cpu":
        return a @ b
    return torch.from_numpy(a.detach().numpy() @ b.detach().numpy())


def find_eigenvalues(matrix: Tensor) -> Tensor:
    """Eigenvalues of a finite symmetric matrix (n, n), in ascending order."""
    if matrix.device.type != "cpu":
        values: Tensor = torch.linalg.eigvalsh(matrix)
        return values
    return torch.from_numpy(np.linalg.eigvalsh(matrix.detach().numpy()))
