"""The evidence of one target, which rules judge and reports hold."""

from __future__ import annotations

from normdiag.evidence.architecture import Architecture
from normdiag.evidence.coverage import Coverage
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.record import record
from normdiag.evidence.subject import Subject
from normdiag.evidence.tokens import TokenTrace


@record
class Evidence:
    """The evidence of one target."""

    subject: Subject
    architecture: Architecture = Architecture()
    measurements: Measurements = Measurements()
    coverage: Coverage = Coverage()
    trace: tuple[TokenTrace, ...] = ()
