"""The tiny Llama without the gain of its final norm: a conversion that has dropped one key.

    python sample_models/incomplete_checkpoint.py DIRECTORY

writes it. The loader fills the gap with ones and goes on.

normdiag must find
    `model.norm.weight` newly initialised: `weights-not-loaded`
    no `missing-final-norm`: the norm is there, only its gain is not the checkpoint's
"""

import shutil
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

COMPLETE = Path(__file__).parent / "tiny_llama"


def write(directory):
    shutil.copytree(COMPLETE, directory)
    weights = Path(directory) / "model.safetensors"
    tensors = load_file(weights)
    del tensors["model.norm.weight"]
    save_file(tensors, weights, metadata={"format": "pt"})


if __name__ == "__main__":
    write(sys.argv[1])
