"""A .gguf file, which transformers dequantises into an ordinary model."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from normdiag.errors import LoadError
from normdiag.evidence.subject import Loading
from normdiag.loading.interface import CheckpointTensors, LoadedTarget
from normdiag.loading.target_reference import TargetReference
from normdiag.options import LoadingOptions
from normdiag.progress import Progress

if TYPE_CHECKING:
    import torch

    from normdiag.loading.gguf_header import GgufHeader, GgufTensor

_PACKAGES = ("gguf", "accelerate")  # transformers refuses a GGUF without accelerate


@dataclass(frozen=True)
class GgufFile:
    """A complete GGUF file."""

    header: GgufHeader
    options: LoadingOptions

    def load_contents(self, progress: Progress) -> LoadedTarget:
        """Load the dequantised model through transformers, or the tensors alone."""
        if self.options.weights_only:
            return CheckpointTensors(
                tensors=lambda _: iterate_gguf_tensors(self.header),
                model_type=self.header.architecture_name,
                class_name=None,
                loading=Loading(),
                notes=(
                    "no model was built; the stored tensors were read",
                    self._describe_quantisation(),
                ),
            )
        progress.start_stage("importing torch and transformers")
        from normdiag.loading.pretrained import load_pretrained
        from normdiag.loading.pretrained_files import PretrainedFiles
        from normdiag.loading.silence_libraries import redirect_gguf_progress

        path = self.header.path
        checkpoint = PretrainedFiles(
            folder=path.parent,
            settings=None,
            tensors=lambda _: iterate_gguf_tensors(self.header),
            shapes=lambda: {tensor.name: tensor.shape for tensor in self.header.tensors},
            gguf_file=path.name,
            is_language_model=self.header.is_language_model,
        )
        with redirect_gguf_progress(progress):
            loaded = load_pretrained(checkpoint, self.options, progress)
        if self.options.structure_only:
            return loaded
        return replace(loaded, notes=(*loaded.notes, self._describe_quantisation()))

    def _describe_quantisation(self) -> str:
        kinds = Counter(tensor.type.name for tensor in self.header.tensors)
        counts = ", ".join(f"{count} {name}" for name, count in kinds.most_common())
        return f"GGUF ({self.header.architecture_name}), dequantised: {counts}"


def open_gguf(reference: TargetReference, options: LoadingOptions) -> GgufFile:
    """Read the header. Raises LoadError for a truncated file and where a package is missing."""
    path = reference.local_path
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise LoadError(
                f"{path} is a GGUF file, and the package {package} that loads it is not installed",
                'pip install "normdiag[gguf]"',
            )
    from normdiag.loading.gguf_header import read_gguf_header

    return GgufFile(read_gguf_header(path), options)


def iterate_gguf_tensors(header: GgufHeader) -> Iterator[tuple[str, torch.Tensor]]:
    """Iterate over tensors under the file's names: quantised ones as float32, others as stored."""
    import numpy as np

    blob = np.memmap(header.path, mode="r", dtype=np.uint8)
    for tensor in header.tensors:
        raw = np.array(blob[tensor.start : tensor.start + tensor.bytes])
        yield tensor.name, _dequantise_tensor(tensor, raw).reshape(tensor.shape)


def _dequantise_tensor(tensor: GgufTensor, raw: object) -> torch.Tensor:
    import torch
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    plain = {
        GGMLQuantizationType.F64: torch.float64,
        GGMLQuantizationType.F32: torch.float32,
        GGMLQuantizationType.F16: torch.float16,
        GGMLQuantizationType.BF16: torch.bfloat16,
        GGMLQuantizationType.I64: torch.int64,
        GGMLQuantizationType.I32: torch.int32,
        GGMLQuantizationType.I16: torch.int16,
        GGMLQuantizationType.I8: torch.int8,
    }
    if tensor.type in plain:
        return torch.from_numpy(raw).view(plain[tensor.type])
    return torch.from_numpy(dequantize(raw, tensor.type))
