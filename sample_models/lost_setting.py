"""A configuration that has lost a setting: `tiny_llama` less `rms_norm_eps`.

    python sample_models/lost_setting.py DIRECTORY

The class's default, 1e-6, is taken instead of the 1e-5 that the model was made with. All tensors
are there and fit, so no loader says a word.

normdiag must find
    the structure of `tiny_llama`, with an epsilon of 1e-6 at all norms
    that `rms_norm_eps` is not in `config.json` and decides the epsilons: `defaulted-setting`
"""

import json
import shutil
import sys
from pathlib import Path

WHOLE = Path(__file__).parent / "tiny_llama"


def write(directory):
    """Write the checkpoint and return its directory."""
    shutil.copytree(WHOLE, directory, dirs_exist_ok=True)
    config = json.loads((WHOLE / "config.json").read_text(encoding="utf-8"))
    del config["rms_norm_eps"]
    (Path(directory) / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    return directory


if __name__ == "__main__":
    write(sys.argv[1])
