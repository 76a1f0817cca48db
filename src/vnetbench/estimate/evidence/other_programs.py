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

_AGENT_NAME = "vnetbench-agent"
"""Name of the agent's process, which has the 15 characters that the kernel keeps."""


def list_processes(
    endpoint: EndpointRecord, *, has_shared_kernel: bool = False
) -> list[Mapping[str, Any]] | None:
    """Return the other programs and the threads of the kernel; None if the file has no list.

    Args:
        endpoint: The endpoint whose agent listed them.
        has_shared_kernel: Whether other endpoints run on the same kernel. Each host has its own copy of the
            agent, so the agent lists those of the others. They are no other programs, and left out.
    """
    processes = endpoint.totals.get(_PROCESSES_KEY)
    if not isinstance(processes, list):
        return None
    listed = [mapping_or_empty(each) for each in processes]
    return [each for each in listed if not (has_shared_kernel and each.get("name") == _AGENT_NAME)]


def is_kernel_thread(process: Mapping[str, Any]) -> bool:
    """Return whether a process of the list is a thread of the kernel."""
    return bool(process.get("kernel"))


def list_other_programs(
    endpoint: EndpointRecord, *, has_shared_kernel: bool = False
) -> list[Mapping[str, Any]] | None:
    """Return the other programs without threads of the kernel; see `list_processes`."""
    processes = list_processes(endpoint, has_shared_kernel=has_shared_kernel)
    return None if processes is None else [each for each in processes if not is_kernel_thread(each)]


def programs_interval_s(trial: TrialRecord, endpoint: EndpointRecord) -> float:
    """Return the time that the programs' CPU times cover; without it, that of the idle phase and the load."""
    return to_number(endpoint.totals.get(_PROCESSES_INTERVAL_KEY)) or trial.idle_s + trial.duration_s
