"""The failure of a trial that had already measured something."""

from __future__ import annotations

from vnetbench.lab.errors import TrialFailed
from vnetbench.results.records import EndpointRecord


class TrialFailedUnderLoad(TrialFailed):
    """A trial that failed under load. `endpoints` has the records collected so far."""

    def __init__(self, what: str, endpoints: tuple[EndpointRecord, ...], kind: str = "") -> None:
        super().__init__(what, kind=kind)
        self.endpoints = endpoints
