"""What stops one treatment, or one trial, while the campaign goes on."""

from __future__ import annotations

from vnetbench.errors import BenchError


class TreatmentRefused(BenchError):
    """A setting did not take effect, or the path is not as asked: no measuring this treatment."""


class TrialFailed(Exception):
    """Something went wrong that may go right in the next trial: an agent died, an interface vanished."""
