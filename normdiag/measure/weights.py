"""The static pass: every floating tensor of the checkpoint, of modules never called too."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import torch

from normdiag.evidence.weights import StaticPass, TensorFingerprint, TensorSummary
from normdiag.loading.plain_values import plain_values
from normdiag.numerics.tensor_fingerprint import fingerprint_tensor


def check_tensors(
    tensors: Iterable[tuple[str, torch.Tensor]],
    loaded: Mapping[str, torch.Tensor],
    *,
    keep_vectors: bool,
    buffers: Mapping[str, torch.Tensor] = MappingProxyType({}),
) -> tuple[StaticPass, str]:
    """One look at every tensor as stored; also the digest of all of them, in whatever order and
    however many files they lie.

    `loaded` are the model's tensors of the same names. `keep_vectors` keeps a line for every
    one-dimensional tensor: the gains and biases, where no graph says which those are. `buffers` are
    the model's, of which some are not stored (rotary frequencies): these have a fingerprint alone.
    """
    noted: list[TensorSummary] = []
    vectors: list[TensorSummary] = []
    empty: list[str] = []
    dtypes: Counter[str] = Counter()
    count = elements = nonfinite = 0
    prints: list[bytes] = []
    fingerprints: dict[str, TensorFingerprint] = {}
    for name, stored in tensors:
        tensor = plain_values(name, stored)
        prints.append(_fingerprint_tensor(name, tensor))
        if not tensor.is_floating_point():
            continue
        if tensor.numel() == 0:
            empty.append(name)
            continue
        line = _check_tensor(name, tensor, loaded.get(name))
        if line.nonfinite == 0:
            fingerprints[name] = fingerprint_tensor(tensor, is_buffer=name in buffers)
        count += 1
        elements += line.elements
        nonfinite += line.nonfinite
        dtypes[line.dtype] += 1
        if line.nonfinite or (line.zeros == line.elements and tensor.dim() >= 2):
            noted.append(line)
        if keep_vectors and tensor.dim() == 1:
            vectors.append(line)
    unstored = {name: buffer for name, buffer in buffers.items() if name not in fingerprints}
    fingerprints |= {
        name: fingerprint_tensor(tensor, is_buffer=True)
        for name, buffer in unstored.items()
        if _is_finite(tensor := plain_values(name, buffer))
    }
    result = StaticPass(
        tensors=count,
        elements=elements,
        nonfinite=nonfinite,
        dtypes=dict(dtypes),
        flagged=tuple(noted),
        vectors=tuple(vectors),
        empty=tuple(empty),
        fingerprints=fingerprints,
    )
    return result, hashlib.sha256(b"".join(sorted(prints))).hexdigest()


def _is_finite(tensor: torch.Tensor) -> bool:
    """Whether it holds floating values, all of them finite."""
    is_comparable = tensor.is_floating_point() and tensor.numel() and not tensor.is_meta
    return bool(is_comparable) and bool(torch.isfinite(tensor).all())


def _check_tensor(name: str, tensor: torch.Tensor, loaded: torch.Tensor | None) -> TensorSummary:
    is_narrow = tensor.element_size() == 1  # float8 has no arithmetic
    values = tensor.float() if is_narrow else tensor
    low, high = (float(v) for v in torch.aminmax(values))
    largest = max(abs(low), abs(high))
    bad, nans, first = 0, 0, None
    if not (low - low == 0 and high - high == 0):  # inf - inf and NaN are not 0
        finite = torch.isfinite(values)
        bad, nans = int(values.numel() - finite.sum()), int(values.isnan().sum())
        first = tuple(int(i) for i in (~finite).nonzero()[0])
        finite_values = values[finite]
        largest = float(finite_values.abs().max()) if finite_values.numel() else float("nan")
    return TensorSummary(
        name=name,
        shape=tuple(tensor.shape),
        dtype=_dtype_name(tensor),
        loaded_dtype=None if loaded is None else _dtype_name(loaded),
        nonfinite=bad,
        zeros=int(values.numel() - torch.count_nonzero(values)),
        elements=values.numel(),
        max_abs=largest,
        nans=nans,
        first_nonfinite=first,
    )


def _fingerprint_tensor(name: str, tensor: torch.Tensor) -> bytes:
    """Name, dtype, shape and crc32 of the bytes."""
    flat = tensor.cpu().contiguous().reshape(-1)
    crc = zlib.crc32(flat.view(torch.uint8).numpy().data) if flat.numel() else 0
    return f"{name}|{_dtype_name(tensor)}|{tuple(tensor.shape)}|{crc:08x}\n".encode(
        "utf-8", "backslashreplace"
    )


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
