"""What was typed goes over the settings, the settings over the defaults; contradictions are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from normdiag.cli import request
from normdiag.cli.options import Dtype, FailOn, Judging, Loading, Measuring, Observing, Probe
from normdiag.config import Settings
from normdiag.errors import UsageError


def observing(loading=None, probe=None, measure=None):
    return Observing(
        loading=Loading(**(loading or {})),
        probe=Probe(**(probe or {})),
        measuring=Measuring(measure=measure),
    )
