"""Names and shapes of tensors, where there is no configuration."""

from __future__ import annotations

from collections import Counter

from normdiag.loading.interface import TensorShapes
from normdiag.loading.safetensors_header import read_safetensors_header
from normdiag.loading.weight_files import WeightFiles

_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def read_tensor_shapes(weights: WeightFiles) -> TensorShapes:
    """Read names, shapes and dtypes of the tensors of .safetensors files, and no value."""
    stored = {
        name: header
        for path in weights.paths
        for name, header in read_safetensors_header(path).items()
    }
    return TensorShapes(
        shapes={name: header.shape for name, header in stored.items()},
        dtypes=Counter(_DTYPES.get(header.dtype, header.dtype) for header in stored.values()),
        notes=("no configuration; only names and shapes of the tensors were read",),
    )
