"""Errors that end one treatment or one trial, but not the campaign."""

from __future__ import annotations

from vnetbench.errors import BenchError


class TreatmentRefused(BenchError):
    """The treatment cannot be measured: a setting did not take effect, or the path is not as requested."""


class TrialFailed(Exception):
    """The trial failed, but a retry may succeed: an agent ended, or an interface vanished."""
