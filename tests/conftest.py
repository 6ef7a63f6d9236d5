"""What all tests run under, in the processes that they start as well."""

import os
import signal

from hypothesis import settings

# The models are small: threads of torch would spend their time waiting for each other, several
# times as long as the work takes where the machine is busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that starts the tests in the background has them ignore Ctrl-C, and the processes that
# they start and interrupt inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run; `--hypothesis-profile=explore` draws others.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("repeatable")
