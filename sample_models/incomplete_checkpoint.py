"""A checkpoint without the gain of its final norm: `tiny_llama` less `model.norm.weight`.

    python sample_models/incomplete_checkpoint.py DIRECTORY

Loaders print a line and go on with a gain of ones. The trained gain is 1.7, so all logits come out
too small by that factor, and the model seems to be merely unsure.

normdiag must find
    the structure of `tiny_llama`
    `model.norm.weight` as missing and newly initialised: `weights-not-loaded`
"""

import shutil
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

WHOLE = Path(__file__).parent / "tiny_llama"


def write(directory):
    """Write the checkpoint and return its directory."""
    shutil.copytree(WHOLE, directory, dirs_exist_ok=True)
    tensors = load_file(WHOLE / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, Path(directory) / "model.safetensors", metadata={"format": "pt"})
    return directory


if __name__ == "__main__":
    write(sys.argv[1])
