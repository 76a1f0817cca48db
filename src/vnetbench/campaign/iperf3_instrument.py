"""Instrument of the lab `hosts` with an iperf3 server: trials between this machine and the server."""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from vnetbench import cleanup
from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.agents.launch import start_local_agent, start_observer
from vnetbench.audit.stored import AUDIT_FACTS_SUBJECT
from vnetbench.campaign.agent_parameters import common_prepare_parameters, list_streams
from vnetbench.campaign.count_checks import check_server_totals
from vnetbench.campaign.instrument import CompletedTrial, NewFacts
from vnetbench.campaign.load_checks import check_and_return_socket_settings, failure_from_agent_error
from vnetbench.campaign.settings_audit import audit_this_machine
from vnetbench.campaign.source_port_checks import EndpointSockets, check_and_return_source_ports
from vnetbench.campaign.trial import (
    TrialAbandoned,
    TrialLoad,
    TrialMeasurement,
    find_endpoint_roles,
    run_trial,
)
from vnetbench.campaign.trial_endpoint import TrialEndpoint
from vnetbench.campaign.trial_failure import TrialFailedUnderLoad
from vnetbench.errors import BenchError
from vnetbench.failure_kinds import SYSTEM_REFUSED
from vnetbench.lab.cpus import select_local_cpus
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.lab.hosts import iperf3_server
from vnetbench.lab.knobs import CPUS_KNOB, INTERFACE_KNOBS
from vnetbench.results.records import HOST, OBSERVE, EndpointRecord
from vnetbench.study.factors.cpu_lists import format_cpu_list
from vnetbench.study.factors.testbed_factors import VM_CPUS
from vnetbench.study.model import TestbedSpec

RETRY_TIMEOUT_S_BY_ERROR = {"busy": 60.0, "unreachable": 3.0}
"""How long to retry, by error kind: the server serves another client, or restarts."""
CONTACT_RETRY_TIMEOUT_S_BY_ERROR = {"busy": 1.0, "unreachable": 1.0}
"""The same before a campaign: a stock server is unavailable for a moment after each test."""
RETRY_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
MIN_NOTED_WAIT_S = 1.0
"""A trial gets a note if the server was unavailable for longer."""

FIX_BY_SERVER_ERROR = {
    "unreachable": "start a server (iperf3 -s), and open its port in all firewalls on the path",
    "busy": "wait until the other client finishes, or start a second server (iperf3 -s -p PORT)",
    "refused": "start a server without authentication and without limits of duration and rate",
    "broken": "check that iperf3 listens on the server's port, not iperf 2 or another program",
}


class _TestbedAndAgents(NamedTuple):
    testbed: iperf3_server.Iperf3Testbed
    load_agent: AgentClient
    observer: AgentClient


class Iperf3Instrument:
    """Runs trials between an agent on this machine and an iperf3 server."""

    def __init__(self, testbed_spec: TestbedSpec) -> None:
        self._testbed_spec = testbed_spec
        self._label = f"run-{secrets.token_hex(3)}"
        self._testbed: iperf3_server.Iperf3Testbed | None = None
        self._agent: AgentClient | None = None
        self._observer: AgentClient | None = None
        self._online = frozenset(os.sched_getaffinity(0))
        self._new_facts = NewFacts()
        self._server_facts: Mapping[str, Any] = {}
        """What the server reports about itself."""

    def measure(self, load: TrialLoad, should_abandon: Callable[[], bool]) -> CompletedTrial:
        """See Instrument."""
        start = time.monotonic()
        try:
            testbed, agent, observer = self._open_testbed_and_agents()
            effective = self._set_cpus(load, testbed, agent)
            measurement = self._run_trial(testbed, agent, observer, load, should_abandon)
        except AgentError as error:
            self.close()
            raise failure_from_agent_error(error) from error
        except TreatmentRefused:
            raise
        except BenchError as error:
            self.close()
            raise TreatmentRefused(error.what, where=error.where, fix=error.fix) from error
        except BaseException:
            self.close()
            raise
        measurement = replace(measurement, effective={**effective, **measurement.effective})
        setup_s = max(0.0, time.monotonic() - start - load.duration_s)
        return CompletedTrial(measurement, str(testbed), setup_s)

    def contact_server(self) -> Mapping[str, Any]:
        """Run a minimal test with the server, and return what the server reports about itself.

        Raises:
            BenchError: The server cannot be reached, or refuses the test.
        """
        self._open_testbed_and_agents()
        return self._server_facts

    def take_new_facts(self) -> NewFacts:
        """See Instrument."""
        new_facts, self._new_facts = self._new_facts, NewFacts()
        return new_facts

    def close(self) -> None:
        """See Instrument."""
        agents = (self._agent, self._observer)
        self._agent = self._observer = None
        cleanup.run_all_despite_errors(agent.close for agent in agents if agent is not None)

    def _open_testbed_and_agents(self) -> _TestbedAndAgents:
        """Return the testbed and the agents on this machine; start them and record their facts once."""
        testbed = self._testbed or iperf3_server.find_testbed(self._testbed_spec)
        agent = self._agent = self._agent or start_local_agent(testbed.local.name, self._label)
        observer = self._observer = self._observer or start_observer(self._label)
        if self._testbed is None:
            server_facts = self._server_facts = _probe_server(agent, testbed)
            self._testbed = testbed
            self._new_facts.testbed_descriptions[str(testbed)] = testbed.describe()
            self._new_facts.facts_by_subject["host"] = observer.call("agent.facts")
            self._new_facts.facts_by_subject[testbed.server.name] = {
                "listens": testbed.server.host_and_port, "address": testbed.server.address,
                "iperf3": server_facts["version"],
                "system": server_facts["system"],
            }  # fmt: skip
            if self._testbed_spec.audit:
                self._new_facts.facts_by_subject[AUDIT_FACTS_SUBJECT] = audit_this_machine(
                    testbed.local.name, testbed.local.interface, testbed.server.name
                )
        return _TestbedAndAgents(testbed, agent, observer)

    def _set_cpus(
        self, load: TrialLoad, testbed: iperf3_server.Iperf3Testbed, agent: AgentClient
    ) -> dict[str, Any]:
        """Set the agent's CPUs, and return the settings of this endpoint as read back."""
        cpus = select_local_cpus(str(VM_CPUS.read_level(load.factors)), self._online)
        agent.call("knob.set", interface=None, knob=CPUS_KNOB, value=format_cpu_list(cpus))
        interface_settings = agent.call(
            "knob.get", interface=testbed.local.interface, knobs=list(INTERFACE_KNOBS)
        )["values"]
        return {**interface_settings, **agent.call("knob.get", interface=None, knobs=[CPUS_KNOB])["values"]}

    def _run_trial(
        self,
        testbed: iperf3_server.Iperf3Testbed,
        agent: AgentClient,
        observer: AgentClient,
        load: TrialLoad,
        should_abandon: Callable[[], bool],
    ) -> TrialMeasurement:
        server = testbed.server
        role, opposite = find_endpoint_roles(load)
        wait_notes: list[str] = []

        def connect(trial: str) -> Mapping[str, object]:
            common = {"trial": trial, "interval_s": load.interval_s}
            observing = observer.send("trial.prepare", workload=OBSERVE, streams=[], **common)
            parameters = {
                **common, **common_prepare_parameters(load.workload, load.factors),
                "streams": list_streams(load.workload, load.factors),
                "interface": testbed.local.interface, "secret": secrets.token_hex(16),
                "connect": {"address": server.address, "port": server.port,
                            "from": testbed.local.source_address, "protocol": "iperf3"},
            }  # fmt: skip
            reply = _call_with_retries(
                agent, "trial.prepare", parameters, RETRY_TIMEOUT_S_BY_ERROR, should_abandon
            )
            if reply.elapsed_s > MIN_NOTED_WAIT_S:
                wait_notes.append(
                    f"the iperf3 server {server.name} was unavailable for {reply.elapsed_s:.1f} s "
                    "before the trial"
                )
            observer.wait(observing, "trial.prepare")
            streams: list[dict[str, Any]] = reply.answer["streams"]
            return _check_and_return_settings(load, testbed.local.name, streams)

        endpoints = {testbed.local.name: TrialEndpoint(agent, role), HOST: TrialEndpoint(observer, OBSERVE)}
        try:
            measurement = run_trial(endpoints, connect, load, should_abandon)
        except TreatmentRefused as refusal:
            # The agent reports the server's refusals as its own, so the location is corrected.
            if refusal.where == agent.endpoint and refusal.kind != SYSTEM_REFUSED:
                refusal.where = str(server)
            raise
        except TrialFailedUnderLoad as error:
            raise TrialFailedUnderLoad(f"{error}, with {server}", error.endpoints, error.kind) from error
        except TrialFailed as failure:
            raise TrialFailed(f"{failure}, with {server}", kind=failure.kind) from failure
        local_record, host = measurement.endpoints
        local_totals = dict(local_record.totals)
        reported = local_totals.pop("server", None)
        if reported is None:
            raise TrialFailed(f"the iperf3 server {server.name} reported no results")
        server_totals = _convert_server_totals(reported)
        notes = check_server_totals(load.factors, server.name, local_totals, server_totals)
        server_record = EndpointRecord(server.name, opposite, server_totals, ())
        endpoint_records = (replace(local_record, totals=local_totals), server_record, host)
        return replace(
            measurement, endpoints=endpoint_records, notes=(*measurement.notes, *wait_notes, *notes)
        )


def _check_and_return_settings(
    load: TrialLoad, endpoint: str, streams: list[dict[str, Any]]
) -> dict[str, object]:
    """Return the settings of this endpoint's sockets; raises TreatmentRefused if the levels had no effect."""
    return {
        **check_and_return_socket_settings(load.factors, streams),
        **check_and_return_source_ports(
            load.workload, load.factors, [EndpointSockets(endpoint, "a", streams)]
        ),
    }


def _probe_server(agent: AgentClient, testbed: iperf3_server.Iperf3Testbed) -> Mapping[str, Any]:
    server = testbed.server
    parameters: dict[str, Any] = {
        "address": server.address,
        "port": server.port,
        "from": testbed.local.source_address,
    }
    try:
        answer = _call_with_retries(
            agent, "iperf3.probe", parameters, CONTACT_RETRY_TIMEOUT_S_BY_ERROR, lambda: False
        ).answer
    except AgentError as error:
        fix = FIX_BY_SERVER_ERROR.get(str(error.data.get("kind")))
        raise BenchError(
            f"the iperf3 server does not run tests: {error.message}", where=str(server), fix=fix
        ) from error
    return answer


class _AgentReply(NamedTuple):
    """An agent's answer, and how long it took with all retries."""

    answer: dict[str, Any]
    elapsed_s: float


def _call_with_retries(
    agent: AgentClient,
    method: str,
    parameters: Mapping[str, Any],
    retry_timeout_s_by_error: Mapping[str, float],
    should_abandon: Callable[[], bool],
) -> _AgentReply:
    """Call the agent, and retry while the server is unavailable.

    Raises:
        AgentError: The server was unavailable for longer than its retry timeout.
        TrialAbandoned: `should_abandon` returned True.
    """
    start = time.monotonic()
    for pause_s in itertools.chain(RETRY_PAUSES_S, itertools.repeat(RETRY_PAUSES_S[-1])):
        try:
            return _AgentReply(agent.call(method, **parameters), time.monotonic() - start)
        except AgentError as error:
            if time.monotonic() - start >= retry_timeout_s_by_error.get(str(error.data.get("kind")), 0.0):
                raise
        if should_abandon():
            raise TrialAbandoned
        time.sleep(pause_s)
    raise AssertionError("the sequence of retries ended")


def _convert_server_totals(server: Any) -> dict[str, Any]:
    """Return the totals of the server, from the agent's trial.end (docs/protocol.md)."""
    bytes_by_role = {"source": 0, "sink": 0}
    for stream in server["streams"]:
        bytes_by_role[stream["role"]] += int(stream["bytes"])
    return {
        "protocol": "iperf3",
        "bytes_sent": bytes_by_role["source"],
        "bytes_received": bytes_by_role["sink"],
        **server,
    }
