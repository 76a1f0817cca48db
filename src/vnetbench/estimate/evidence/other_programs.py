"""Other programs on an endpoint's machine, as the agent listed them in a trial (docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vnetbench.estimate.evidence.aggregation import to_number
from vnetbench.results.records import EndpointRecord, TrialRecord, mapping_or_empty

_PROCESSES_KEY = "processes"
"""Key in an endpoint's totals: the other programs that used the most CPU time."""
_PROCESSES_INTERVAL_KEY = "processes_interval_s"
"""Key in an endpoint's totals: the time that the CPU times of `processes` cover, the drain included."""


def list_other_programs(endpoint: EndpointRecord) -> list[Mapping[str, Any]] | None:
    """Return the other programs without threads of the kernel; None if the file has no list."""
    processes = endpoint.totals.get(_PROCESSES_KEY)
    if not isinstance(processes, list):
        return None
    return [each for each in map(mapping_or_empty, processes) if not each.get("kernel")]


def programs_interval_s(trial: TrialRecord, endpoint: EndpointRecord) -> float:
    """Return the time that the programs' CPU times cover; without it, that of the idle phase and the load."""
    return to_number(endpoint.totals.get(_PROCESSES_INTERVAL_KEY)) or trial.idle_s + trial.duration_s
