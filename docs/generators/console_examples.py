"""Run the console examples of the pages again and put their true output below them.

    python -m docs.generators.console_examples            # rewrite
    python -m docs.generators.console_examples --check    # compare; numbers may differ by 1 %

A ```console block holds commands, each on a line that begins with `$ `, and what they print on
stdout. Blocks without any output are left alone: they are there to be read, not run. README.md is
run in the repository's root, a guide in a new folder with a checkpoint in it.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
GUIDES = tuple(ROOT / "docs" / "guides" / name for name in ("ci.md", "compare.md", "report.md"))
PAGES = (README, *GUIDES)
BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
DRAWN = re.compile(r"[▀-▟·]+")
OF_THE_MACHINE = re.compile(r"(?<=\d)\+\w+|\(worst\s+at\s[^)]*\)")
"""The build of torch, and which of many rounding errors happens to be the largest."""
TOLERANCE = 0.01
ROUNDING = 1e-5
"""Two errors below this are both rounding."""


def parse_commands(block: str) -> dict[str, str]:
    """Command -> the output that the page shows below it."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@contextmanager
def working_folder(path: Path) -> Iterator[Path]:
    """Where the commands of a page are run, one after the other."""
    if path not in GUIDES:
        yield ROOT
        return
    with TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "sample_models" / "tiny_llama", Path(folder) / "checkpoint")
        yield Path(folder)


def run_command(command: str, folder: Path = ROOT) -> str:
    """What `command` prints on stdout, in `folder`, 80 columns wide and plain."""
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, encoding="utf-8"
    )
    if done.returncode:
        raise SystemExit(f"$ {command}\nexit code {done.returncode}\n{done.stderr}")
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def renew_outputs(page: str, folder: Path = ROOT) -> str:
    """`page` with the output of every command as it is now."""

    def block(match: re.Match[str]) -> str:
        shown = parse_commands(match[1])
        if not any(output.strip() for output in shown.values()):
            return match[1]
        return "".join(f"$ {command}\n{run_command(command, folder)}" for command in shown)

    return BLOCK.sub(block, page)


def is_same_output(shown: str, now: str) -> bool:
    """Are two outputs equal but for spacing, bars, rounding and the last digits of numbers?

    A number differs from machine to machine in its last digits, and with it the width of its
    column and the bar that is drawn for it.
    """
    shown, now = OF_THE_MACHINE.sub("", shown), OF_THE_MACHINE.sub("", now)
    if replace_numbers(shown) != replace_numbers(now):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(now), strict=True)
    return all(
        math.isclose(float(a), float(b), rel_tol=TOLERANCE, abs_tol=ROUNDING) for a, b in pairs
    )


def replace_numbers(output: str) -> list[str]:
    """The words of `output`, with every number and every bar replaced by a sign for it."""
    return DRAWN.sub("▇", NUMBER.sub("#", output)).split()


def main(arguments: list[str]) -> int:
    """The exit code: 1 where `--check` finds a page that is out of date, 2 for a wrong argument."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m docs.generators.console_examples [--check]", file=sys.stderr)
        return 2
    return max(renew_page(path, write=not arguments) for path in PAGES)


def renew_page(path: Path, write: bool) -> int:
    """Write a page anew, or only look: 1 where it is out of date."""
    page = path.read_text(encoding="utf-8")
    with working_folder(path) as folder:
        now = renew_outputs(page, folder)
    if write:
        path.write_text(now, encoding="utf-8")
        return 0
    if is_same_output(page, now):
        return 0
    print(
        f"{path.name}: an example prints something else now; "
        "run: python -m docs.generators.console_examples"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
