"""Freed memory returns to the system."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from pathlib import Path
from normdiag.cli.trim_malloc import trim_malloc

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

if sys.argv[1] == "trimmed":
    trim_malloc()
bytearray(30 << 20)  # by default glibc takes blocks of this size from its own store from now on
before = resident()
blocks = [(bytearray(2 << 20), bytearray(1000)) for _ in range(100)]
small = [pair[1] for pair in blocks]
del blocks
print((resident() - before) >> 20)
"""


def held_megabytes(how):
    """Megabytes held after 200 were freed."""
    process = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, check=True)
    return int(process.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_freed_blocks_return():
    assert held_megabytes("trimmed") < 20
    assert held_megabytes("by default") > 100
