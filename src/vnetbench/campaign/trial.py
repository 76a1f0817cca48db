"""One trial on a running testbed: connect the endpoints, run the load and collect their records."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from socket import VMADDR_CID_HOST
from typing import Any, NamedTuple

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.campaign import source_port_checks
from vnetbench.campaign.agent_parameters import (
    choose_thread_cpus,
    common_prepare_parameters,
    find_endpoint_role,
    frame_sources_share_cpu,
    list_streams,
    max_threads_per_endpoint_with_own_cpus,
)
from vnetbench.campaign.count_checks import find_count_error, kind_of_count_error
from vnetbench.campaign.frame_checks import (
    abnormal_frame_notes,
    check_frame_counts,
    format_loss_of_all_frames,
    offered_load_notes,
)
from vnetbench.campaign.frame_counts import sum_endpoint_counts
from vnetbench.campaign.frame_ports import make_frame_port_parameters, merge_frame_backends
from vnetbench.campaign.load_checks import (
    check_and_return_socket_settings,
    check_and_return_thread_cpus,
    check_pacing_and_load,
    failure_from_agent_error,
    refusal_from_agent_error,
    sum_zero_copy_counts,
)
from vnetbench.campaign.load_run import collect_records, run_load_and_measure_bench_cpu_s
from vnetbench.campaign.network_event import OnStart, ignore_start, run_with_network_event
from vnetbench.campaign.team_counters import count_mac_moves_of_load
from vnetbench.campaign.trial_endpoint import TrialEndpoint
from vnetbench.campaign.trial_failure import TrialFailedUnderLoad
from vnetbench.campaign.trial_notes import clock_notes, delay_line_notes, instrument_notes, team_notes
from vnetbench.lab.endpoint import SIDES, Endpoint
from vnetbench.lab.testbed import Testbed, endpoint_pairs
from vnetbench.results.records import HOST, OBSERVE, EndpointRecord, StepRecord
from vnetbench.search.interface import SearchEstimate
from vnetbench.study.factors.frame_factors import GENERATORS_PER_DIRECTION
from vnetbench.study.factors.load_factors import THREADS, TRANSPORT, VSOCK, WAITING
from vnetbench.study.factors.testbed_factors import IP_VERSION
from vnetbench.study.model import Level, SearchSpec
from vnetbench.study.workloads import TCP_STREAM, WORKLOADS


class TrialAbandoned(Exception):
    """The user stopped the trial. `endpoints` has the records collected so far."""

    def __init__(self, endpoints: tuple[EndpointRecord, ...] = ()) -> None:
        super().__init__()
        self.endpoints = endpoints


@dataclass(frozen=True)
class StepSeries:
    """The search that a trial starts with, and the functions that read, store and delete its steps."""

    search_spec: SearchSpec
    seed: int
    read_stored_steps: Callable[[], tuple[StepRecord, ...]]
    save_step: Callable[[StepRecord], None]
    """Stores a finished step on disk."""
    delete_stored_steps: Callable[[], None]
    """Deletes all stored steps, so that the trial starts again."""
    should_stop: Callable[[], bool] = lambda: False
    """Returns whether the user wants to stop: no further step starts, and the stored steps are kept."""
    report_estimate: Callable[[SearchEstimate], None] = lambda _: None


@dataclass(frozen=True)
class TrialLoad:
    """The load of one trial, and how it is sampled."""

    factors: Mapping[str, Level]
    duration_s: float
    interval_s: float
    workload: str = TCP_STREAM
    idle_s: float = 0.0
    """Duration of the phase with requests only, before `duration_s` (workload `mixed`); whole intervals."""
    earlier_calibration: Mapping[str, object] | None = None
    """Calibration of an earlier trial of the treatment, which `send_mode = auto` reuses."""

    burst_frames: int | None = None
    """Workloads of frames: maximum number of frames per direction of a pair, sent at full rate."""
    end_after_silence_s: float = SearchSpec.residual_frames_wait_s
    """Workloads of frames: the trial ends when no frame has arrived for this long after the load."""
    step_series: StepSeries | None = None
    """Workloads of frames: the steps before the load, which determine its rate."""

    @property
    def idle_and_load_s(self) -> float:
        """Duration of the idle phase and the load together."""
        return self.idle_s + self.duration_s


@dataclass(frozen=True)
class TrialMeasurement:
    """Records of all endpoints, the effective settings and notes of a trial."""

    endpoints: tuple[EndpointRecord, ...]
    effective: Mapping[str, object]
    notes: tuple[str, ...]
    steps: tuple[StepRecord, ...] = ()
    """Steps before the final run, if the trial has a step series."""


def measure_trial(
    testbed: Testbed,
    observer: AgentClient,
    load: TrialLoad,
    should_abandon: Callable[[], bool] = lambda: False,
) -> TrialMeasurement:
    """Run one trial on a testbed and check its counts.

    Args:
        testbed: The testbed, with the treatment's settings applied.
        observer: The agent on the bench's host.
        load: The load.
        should_abandon: Polled during the trial; returns whether to stop it.

    Raises:
        TreatmentRefused: The treatment is not possible on this testbed.
        TrialFailed: The trial failed; another one may succeed.
        TrialAbandoned: `should_abandon` returned True.
    """
    role_a, role_b = find_endpoint_roles(load)
    participants = {
        e.name: TrialEndpoint(
            testbed.agents[e.name],
            role_a if e.side == "a" else role_b,
            e.has_own_kernel,
            has_clock_of_bench=not e.has_own_kernel,
        )
        for e in testbed.endpoints
    }
    for name in testbed.interfaces_by_forwarding_agent():
        # Forwarding agents are in guests.
        participants[name] = TrialEndpoint(testbed.agents[name], OBSERVE, has_clock_of_bench=False)
    participants[HOST] = TrialEndpoint(observer, OBSERVE)
    testbed.reset_delay_line_counters_and_seeds()
    measurement = run_with_network_event(
        testbed,
        load,
        lambda on_start: run_trial(
            participants,
            lambda trial: _connect_pairs_and_check_settings(testbed, observer, load, trial),
            load,
            should_abandon,
            on_start,
        ),
    )
    effective = count_mac_moves_of_load(measurement.effective, testbed.read_mac_moves())
    measurement = replace(measurement, effective=effective)
    measurement = _add_delay_line_counters_and_notes(measurement, testbed.read_delay_line_counters())
    load_endpoints = [endpoint for endpoint in measurement.endpoints if endpoint.role != OBSERVE]
    if WORKLOADS[load.workload].carries_frames:
        counts = sum_endpoint_counts(load_endpoints, load.factors)
        check_frame_counts(counts)
        notes = [*abnormal_frame_notes(counts), *offered_load_notes(counts, load.factors, load.duration_s)]
        if not counts.total_received:
            notes.insert(0, format_loss_of_all_frames(counts.total_sent, measurement.endpoints))
        return replace(measurement, notes=(*notes, *measurement.notes))
    if error := find_count_error(load.workload, load.idle_and_load_s, load_endpoints):
        raise TrialFailedUnderLoad(error, measurement.endpoints, kind_of_count_error(load_endpoints))
    load_notes = check_pacing_and_load(load.factors, load.idle_and_load_s, load_endpoints)
    return replace(measurement, notes=(*load_notes, *measurement.notes))


def _add_delay_line_counters_and_notes(
    measurement: TrialMeasurement, lines: Sequence[Mapping[str, Any]]
) -> TrialMeasurement:
    """Add the counters of delay lines to the host's totals, and notes where a delay line was the limit."""
    if not lines:
        return measurement
    endpoints = tuple(
        replace(each, totals={**each.totals, "delay_lines": list(lines)}) if each.name == HOST else each
        for each in measurement.endpoints
    )
    return replace(measurement, endpoints=endpoints, notes=(*delay_line_notes(lines), *measurement.notes))


def run_trial(
    endpoints: Mapping[str, TrialEndpoint],
    connect: Callable[[str], Mapping[str, object]],
    load: TrialLoad,
    should_abandon: Callable[[], bool],
    on_start: OnStart = ignore_start,
) -> TrialMeasurement:
    """Run one trial of these endpoints. Raises as `measure_trial` does.

    Args:
        endpoints: All participants by name; the bench's observer is `host`.
        connect: Takes the trial's name, prepares all endpoints and returns the effective settings of their
            sockets and threads, which it has checked.
        load: The load.
        should_abandon: Polled during the trial; returns whether to stop it.
        on_start: Called once when all agents have started the load.
    """
    trial = secrets.token_hex(4)
    for endpoint in endpoints.values():
        endpoint.agent.discard_events()
    try:
        effective = dict(connect(trial))
        bench_cpu_s = run_load_and_measure_bench_cpu_s(
            endpoints, trial, load.idle_and_load_s, should_abandon, on_start
        )
    except AgentError as error:
        raise refusal_from_agent_error(error, error.endpoint) or failure_from_agent_error(error) from error
    finally:
        for endpoint in endpoints.values():
            endpoint.agent.send("trial.stop", trial=trial)
    if bench_cpu_s is None:
        raise TrialAbandoned(collect_records(endpoints, trial))
    endpoints[HOST].totals = {**(endpoints[HOST].totals or {}), "bench_cpu_s": bench_cpu_s}
    records = collect_records(endpoints, trial)
    if faults := [endpoint.fault for endpoint in endpoints.values() if endpoint.fault]:
        # The cause is listed before the faults that it caused at other endpoints.
        faults.sort(key=lambda fault: fault.cause_rank)
        raise TrialFailedUnderLoad("; ".join(fault.message for fault in faults), records, faults[0].kind)
    totals = {record.name: record.totals for record in records}
    if counts := sum_zero_copy_counts(list(totals.values())):
        effective["zero_copy_sends"] = counts
    notes = (
        *clock_notes(effective),
        *source_port_checks.source_port_notes(effective),
        *team_notes(effective, load.idle_and_load_s),
        *instrument_notes(load.idle_and_load_s, load.interval_s, totals),
    )
    return TrialMeasurement(records, effective, notes)


class EndpointRoles(NamedTuple):
    """The roles of endpoints a and b of each pair."""

    a: str
    b: str


def find_endpoint_roles(load: TrialLoad) -> EndpointRoles:
    """Return the roles of endpoints a and b of each pair."""
    role_a, role_b = (find_endpoint_role(list_streams(load.workload, load.factors, side)) for side in SIDES)
    return EndpointRoles(role_a, role_b)


class _TrialPreparation:
    """Sends trial.prepare to the endpoints of a testbed, and waits for their answers."""

    def __init__(self, testbed: Testbed, load: TrialLoad, trial: str) -> None:
        self.common: dict[str, Any] = {"trial": trial, "interval_s": load.interval_s}
        self._testbed = testbed
        self._load = load
        self._trial = trial
        workload = {**self.common, **common_prepare_parameters(load.workload, load.factors)}
        if WORKLOADS[load.workload].carries_frames:
            burst = load.burst_frames
            generators = int(load.factors[GENERATORS_PER_DIRECTION.name])
            workload |= {
                "settle_s": load.end_after_silence_s,
                "frames": None if burst is None else -(-burst // generators),
            }
        if WAITING.is_at(load.factors, "spin") and THREADS.read_level(load.factors) == "auto":
            workload["threads"] = max_threads_per_endpoint_with_own_cpus(load.factors, testbed)
        if WORKLOADS[load.workload].has_idle_phase:
            workload["idle_s"] = load.idle_s
        self.thread_cpus = choose_thread_cpus(load.workload, load.factors, testbed, workload)
        if WORKLOADS[load.workload].carries_frames:
            workload["shares_cpus"] = frame_sources_share_cpu(
                load.workload, load.factors, testbed, self.thread_cpus
            )
        self._workload = workload
        # Each pair has its own secret, so that a stream that reaches the wrong VM is detected as foreign.
        self._pairs = [(a, b, secrets.token_hex(16)) for a, b in endpoint_pairs(testbed)]
        self._streams_a, self._streams_b = (list_streams(load.workload, load.factors, side) for side in SIDES)

    def prepare_frames_and_collect_replies(self) -> dict[str, Any]:
        """Prepare generators and sinks of frames at both endpoints of each pair."""
        ends = [
            end
            for a, b, secret in self._pairs
            for end in ((a, b, self._streams_a, secret), (b, a, self._streams_b, secret))
        ]
        factors = self._load.factors
        pending = [
            (
                at,
                self._send(
                    at, secret, streams=streams, **make_frame_port_parameters(self._testbed, at, to, factors)
                ),
            )
            for at, to, streams, secret in ends
        ]
        return self._wait(pending, "trial.prepare")

    def prepare_sockets_and_collect_replies(self) -> dict[str, Any]:
        """Let endpoint b of each pair listen and endpoint a connect to it."""
        factors = self._load.factors
        listening = [
            (b, self._send(b, secret, streams=self._streams_b, listen=_listen_address(b, factors)))
            for _, b, secret in self._pairs
        ]
        ports = self._wait(listening, "trial.prepare")
        connecting = [
            (
                a,
                self._send(
                    a,
                    secret,
                    streams=self._streams_a,
                    connect=_connect_address(b, ports[b.name]["port"], a, factors),
                ),
            )
            for a, b, secret in self._pairs
        ]
        answers = self._wait(connecting, "trial.prepare")
        waiting = [
            (b, self._testbed.agents[b.name].send("trial.ready", trial=self._trial))
            for _, b, _ in self._pairs
        ]
        return {**answers, **self._wait(waiting, "trial.ready")}

    def _send(self, endpoint: Endpoint, secret: str, **parameters: object) -> Future[dict[str, Any]]:
        if names := self._testbed.watched_interfaces(endpoint):
            parameters["watch"] = {"interfaces": list(names)}
        return self._testbed.agents[endpoint.name].send(
            "trial.prepare", **self._workload, secret=secret, interface=endpoint.interface,
            system=endpoint.has_own_kernel, thread_cpus=self.thread_cpus[endpoint.name], **parameters,
        )  # fmt: skip

    def _wait(
        self, pending: Iterable[tuple[Endpoint, Future[dict[str, Any]]]], method: str
    ) -> dict[str, Any]:
        return {at.name: self._testbed.agents[at.name].wait(future, method) for at, future in pending}


def _connect_pairs_and_check_settings(
    testbed: Testbed, observer: AgentClient, load: TrialLoad, trial: str
) -> dict[str, object]:
    """Connect all streams of all pairs, and return the checked settings of their sockets and threads."""
    preparation = _TrialPreparation(testbed, load, trial)
    targets = [(observer, testbed.observer_targets())]
    targets += [
        (testbed.agents[name], {"interfaces": list(names)})
        for name, names in testbed.interfaces_by_forwarding_agent().items()
    ]
    observing = [
        (agent, agent.send("trial.prepare", workload=OBSERVE, streams=[], watch=watch, **preparation.common))
        for agent, watch in targets
    ]
    is_frames = WORKLOADS[load.workload].carries_frames
    answers = (
        preparation.prepare_frames_and_collect_replies()
        if is_frames
        else preparation.prepare_sockets_and_collect_replies()
    )
    for agent, future in observing:
        agent.wait(future, "trial.prepare")
    teams = testbed.read_teams(
        has_lasting_flows=WORKLOADS[load.workload].has_lasting_flows,
        streams={name: answer["streams"] for name, answer in answers.items()},
    )
    streams = [stream for answer in answers.values() for stream in answer["streams"]]
    cpus = {name: answer["thread_cpus"] for name, answer in answers.items()}
    return {
        **check_and_return_socket_settings(load.factors, streams),
        **source_port_checks.check_and_return_source_ports(
            load.workload, load.factors, source_port_checks.pair_sockets(endpoint_pairs(testbed), answers)
        ),
        **check_and_return_thread_cpus(preparation.thread_cpus, cpus),
        **merge_frame_backends(answers),
        **({"teams": list(teams)} if teams else {}),
        **({"rejected_frames": testbed.rejected_frame_outcome} if is_frames else {}),
    }


def _listen_address(b: Endpoint, factors: Mapping[str, Level]) -> dict[str, object]:
    """Return the address that endpoint b listens on, for trial.prepare."""
    if TRANSPORT.is_at(factors, VSOCK):
        return {"vsock": {"port": None}}
    return {"address": b.address_for(str(IP_VERSION.read_level(factors))), "port": 0}


def _connect_address(b: Endpoint, port: int, a: Endpoint, factors: Mapping[str, Level]) -> dict[str, object]:
    """Return the address that endpoint a connects to, for trial.prepare."""
    if TRANSPORT.is_at(factors, VSOCK):
        return {"vsock": {"cid": VMADDR_CID_HOST, "port": port}}
    ip_version = str(IP_VERSION.read_level(factors))
    return {"address": b.address_for(ip_version), "port": port, "from": a.address_for(ip_version)}
