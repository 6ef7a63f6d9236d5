"""Write a file atomically."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from normdiag.errors import UsageError


def write_atomically(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to a temporary file, then rename it to `path`.

    After an interruption (full disk, Ctrl-C) `path` holds either its old content or all of the new
    one. Symbolic links are followed, and anything but a regular file (/dev/stdout, a pipe) is
    written directly, since a rename would replace it. Raises UsageError where the file cannot be
    written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            _replace_file(Path(os.path.realpath(path)), text)
    except OSError as error:
        raise UsageError(
            f"cannot write {str(path)!r}: {error.strerror or error}",
            "give a file in a folder that exists and that you may write to",
        ) from error


def _replace_file(target: Path, text: str) -> None:
    new = target.parent / f".normdiag-{secrets.token_hex(8)}.tmp"
    try:
        with new.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        if target.exists():
            new.chmod(target.stat().st_mode & 0o777)
        new.replace(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        raise
