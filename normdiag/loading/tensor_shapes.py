"""What the headers of weight files say where no configuration says more."""

from __future__ import annotations

from collections import Counter

from normdiag.loading.interface import TensorShapes
from normdiag.loading.safetensors_header import read_safetensors_header
from normdiag.loading.weight_files import WeightFiles

_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def read_tensor_shapes(weights: WeightFiles) -> TensorShapes:
    """Names, shapes and dtypes of all tensors of .safetensors files. No value is read."""
    stored = {
        name: seen for path in weights.paths for name, seen in read_safetensors_header(path).items()
    }
    return TensorShapes(
        shapes={name: seen.shape for name, seen in stored.items()},
        dtypes=Counter(_DTYPES.get(seen.dtype, seen.dtype) for seen in stored.values()),
        notes=("no configuration says what model this is: names and shapes alone were read",),
    )
