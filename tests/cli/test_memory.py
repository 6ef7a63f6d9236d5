"""What was freed is no longer held."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from pathlib import Path
from normdiag.cli.memory import give_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

if sys.argv[1] == "asked":
    give_back()
bytearray(30 << 20)  # by default glibc takes blocks of this size from its own store from now on
before = resident()
kept = [(bytearray(2 << 20), bytearray(1000)) for _ in range(100)]
small = [pair[1] for pair in kept]
del kept
print((resident() - before) >> 20)
"""


def held(how):
    """Megabytes held after 200 were freed."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's way")
def test_freed_blocks_go_back():
    assert held("asked") < 20
    assert held("not asked") > 100
