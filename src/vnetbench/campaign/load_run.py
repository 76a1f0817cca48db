"""The load of one trial: starts all agents, follows their events, and collects their records."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from vnetbench.agents.client import AgentError
from vnetbench.campaign.trial_endpoint import EndpointFault, TrialEndpoint
from vnetbench.campaign.trial_notes import DRAIN_TIMEOUT_S
from vnetbench.failure_kinds import AGENT_GONE
from vnetbench.results.records import OBSERVE, EndpointRecord

TRIAL_END_GRACE_S = 5.0
"""How long the bench waits for an agent's trial.end after the load and its drain."""
POLL_INTERVAL_S = 0.2
ABANDON_TIMEOUT_S = 1.0
"""How long the bench waits for the samples that the agents still hold when the user stops a trial."""


def run_load_and_measure_bench_cpu_s(
    endpoints: Mapping[str, TrialEndpoint],
    trial: str,
    sending_s: float,
    should_abandon: Callable[[], bool],
    on_start: Callable[[int], None],
) -> float | None:
    """Run the load until each agent has ended its trial.

    Args:
        endpoints: All participants by name.
        trial: The trial's name.
        sending_s: Duration of the idle phase and the load together.
        should_abandon: Polled during the load; returns whether to stop it.
        on_start: Takes the time at which the last agent on the bench's kernel started, CLOCK_MONOTONIC in
            nanoseconds.

    Returns:
        CPU time of this process in seconds while the load ran, or None if the load was abandoned.

    Raises:
        AgentError: An agent does not start the load.
    """
    start_s = time.process_time()
    # Observers and sinks start before anything is sent.
    order = sorted(endpoints.values(), key=lambda e: [OBSERVE, "sink", "both", "source"].index(e.role))
    pending = [(e, e.agent.send("trial.start", trial=trial, duration_s=sending_s)) for e in order]
    # The agents in guests come last: on a busy machine they answer late, and must not delay an event.
    starts_ns = [_wait_for_start(each) for each in pending if each[0].has_clock_of_bench]
    on_start(max(starts_ns, default=0))
    for each in pending:
        _wait_for_start(each)
    if _process_events_until_end_or_abandoned(endpoints, trial, sending_s, should_abandon):
        return time.process_time() - start_s
    _stop_and_wait(endpoints, trial)
    return None


def _wait_for_start(pending: tuple[TrialEndpoint, Future[dict[str, Any]]]) -> int:
    """Return when an agent started, by its CLOCK_MONOTONIC in nanoseconds; raises AgentError."""
    endpoint, future = pending
    reply = endpoint.agent.wait(future, "trial.start")
    return int(reply.get("started_monotonic_ns") or 0)


def collect_records(endpoints: Mapping[str, TrialEndpoint], trial: str) -> tuple[EndpointRecord, ...]:
    """Decode the samples of all endpoints and return their records. A malformed sample sets a fault."""
    for endpoint in endpoints.values():
        endpoint.decode_samples(trial)
    return tuple(
        EndpointRecord(name, each.role, each.totals or {}, tuple(each.samples))
        for name, each in endpoints.items()
    )


def _process_events_until_end_or_abandoned(
    endpoints: Mapping[str, TrialEndpoint], trial: str, sending_s: float, should_abandon: Callable[[], bool]
) -> bool:
    """Process the events of all agents until each has ended its trial. A fault of one stops the others.

    Returns:
        Whether all have ended; False if the trial is to be abandoned.
    """
    deadline = time.monotonic() + sending_s + DRAIN_TIMEOUT_S + TRIAL_END_GRACE_S
    is_broken = False
    while pending := [endpoint for endpoint in endpoints.values() if not endpoint.is_over]:
        if should_abandon():
            return False
        # All agents end at about the same time, so their events queue up while one of them is polled.
        pending[0].process_queued_events(trial, wait_s=POLL_INTERVAL_S)
        for endpoint in pending[1:]:
            endpoint.process_queued_events(trial)
        if not is_broken and any(endpoint.fault for endpoint in endpoints.values()):
            is_broken = True
            deadline = min(deadline, time.monotonic() + TRIAL_END_GRACE_S)
            for endpoint in endpoints.values():
                endpoint.agent.send("trial.stop", trial=trial)
        if time.monotonic() > deadline:
            for endpoint in (endpoint for endpoint in pending if not endpoint.is_over):
                what = f"{endpoint.agent.endpoint}: the agent did not end the trial in time"
                endpoint.fault = EndpointFault(1, what, AGENT_GONE)
    return True


def _stop_and_wait(endpoints: Mapping[str, TrialEndpoint], trial: str) -> None:
    """Stop the trial. An agent sends the samples that it holds before its answer."""
    deadline = time.monotonic() + ABANDON_TIMEOUT_S
    pending = [(e, e.agent.send("trial.stop", trial=trial)) for e in endpoints.values()]
    for endpoint, future in pending:
        with suppress(AgentError):
            endpoint.agent.wait(future, "trial.stop", max(0.0, deadline - time.monotonic()))
