"""What a campaign measures hosts with: trials between this machine and an iperf3 server."""

from __future__ import annotations

import itertools
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.agents.launch import start_here, start_observer
from vnetbench.campaign.count_checks import judge_server
from vnetbench.campaign.instrument import Done, Learned
from vnetbench.campaign.load_checks import judge_streams
from vnetbench.campaign.trial import Abandoned, Load, Measured, Side, TrialBroke, run_trial, side_roles
from vnetbench.campaign.agent_parameters import parameters, stream_roles
from vnetbench.errors import BenchError
from vnetbench.lab.hosts import iperf3_server
from vnetbench.lab.cpus import local_cpus
from vnetbench.lab.knobs import INTERFACE_KNOBS
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.results.records import HOST, OBSERVE, SideRecord
from vnetbench.study.factors.cpu_lists import spell_cpu_list
from vnetbench.study.model import TestbedAsked

PATIENCE_S = {"busy": 60.0, "unreachable": 3.0}
"""How long a server is asked again, by what keeps it: another client's test, or that it starts anew."""
GREETING_PATIENCE_S = {"busy": 1.0, "unreachable": 1.0}
"""Before a campaign: a stock server is neither for a moment after each test."""
PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8)
LONG_S = 1.0
"""What it took longer to have the server is noted."""

SERVER_FIXES = {
    "unreachable": "start one there (iperf3 -s), and let its port through every firewall on the way",
    "busy": "wait for the other client's end, or start a second server beside it (iperf3 -s -p PORT)",
    "refused": "start a server that allows it: without users and passwords, without limits of time and rate",
    "broken": "see that it is iperf3 which listens there, not iperf 2 or another program",
}


class HostsInstrument:
    """Trials on the lab `hosts`: an agent on this machine, and a server that only speaks iperf3."""

    def __init__(self, asked: TestbedAsked) -> None:
        self._asked = asked
        self._label = f"run-{secrets.token_hex(3)}"
        self._hosts: iperf3_server.Hosts | None = None
        self._agent: AgentClient | None = None
        self._observer: AgentClient | None = None
        self._online = frozenset(os.sched_getaffinity(0))
        self._learned = Learned()
        self._said: Mapping[str, Any] = {}
        """By the server, of itself."""

    def measure(self, load: Load, is_given_up: Callable[[], bool]) -> Done:
        """See Instrument."""
        began = time.monotonic()
        try:
            bed, agent, observer = self._opened()
            effective = self._place(load, bed, agent)
            measured = self._against(bed, agent, observer, load, is_given_up)
        except AgentError as error:
            self.close()
            raise TrialFailed(str(error)) from error
        except TreatmentRefused:
            raise
        except BenchError as error:
            self.close()
            raise TreatmentRefused(error.what, where=error.where, fix=error.fix) from error
        except BaseException:
            self.close()
            raise
        found = replace(measured, effective={**effective, **measured.effective})
        return Done(found, str(bed), max(0.0, time.monotonic() - began - load.duration_s))

    def greet(self) -> Mapping[str, Any]:
        """Have the server serve the shortest of tests; returns what it says of itself.

        Raises BenchError where it does not serve, or cannot be found.
        """
        self._opened()
        return self._said

    def learned(self) -> Learned:
        """See Instrument."""
        news, self._learned = self._learned, Learned()
        return news

    def close(self) -> None:
        """See Instrument."""
        for agent in (self._agent, self._observer):
            if agent is not None:
                agent.close()
        self._agent = self._observer = None

    def _opened(self) -> tuple[iperf3_server.Hosts, AgentClient, AgentClient]:
        """The testbed and the agents on this machine; what is learned of them is learned once."""
        bed = self._hosts or iperf3_server.find(self._asked)
        agent = self._agent = self._agent or start_here(bed.here.name, self._label)
        observer = self._observer = self._observer or start_observer(self._label)
        if self._hosts is None:
            said = self._said = _greet(agent, bed)
            self._hosts = bed
            self._learned.testbeds[str(bed)] = bed.as_facts()
            self._learned.facts["host"] = observer.call("agent.facts")
            self._learned.facts[bed.server.name] = {
                "listens": bed.server.listens, "address": bed.server.address, "iperf3": said["version"],
                "system": said["system"],
            }  # fmt: skip
        return bed, agent, observer

    def _place(self, load: Load, bed: iperf3_server.Hosts, agent: AgentClient) -> dict[str, Any]:
        """Give the agent its CPUs; returns every knob of this side as it stands."""
        wanted = local_cpus(str(load.factors.get("cpus", "any")), self._online)
        agent.call("knob.set", interface=None, knob="cpus", value=spell_cpu_list(wanted))
        found = agent.call("knob.get", interface=bed.here.interface, knobs=list(INTERFACE_KNOBS))["values"]
        return {**found, **agent.call("knob.get", interface=None, knobs=["cpus"])["values"]}

    def _against(
        self,
        bed: iperf3_server.Hosts,
        agent: AgentClient,
        observer: AgentClient,
        load: Load,
        is_given_up: Callable[[], bool],
    ) -> Measured:
        server = bed.server
        role, opposite = side_roles(load)
        waited: list[str] = []

        def connect(trial: str) -> Mapping[str, object]:
            common = {"trial": trial, "interval_s": load.interval_s}
            observing = observer.send("trial.prepare", workload=OBSERVE, streams=[], **common)
            asked = {
                **common, **parameters(load.workload, load.factors),
                "streams": stream_roles(load.workload, load.factors),
                "interface": bed.here.interface, "secret": secrets.token_hex(16),
                "connect": {"address": server.address, "port": server.port, "from": bed.here.address,
                            "speaks": "iperf3"},
            }  # fmt: skip
            answer, took_s = _patiently(agent, "trial.prepare", asked, PATIENCE_S, is_given_up)
            if took_s > LONG_S:
                waited.append(f"{server.name} could be had only after {took_s:.1f} s")
            observer.wait(observing, "trial.prepare")
            found: list[dict[str, Any]] = answer["streams"]
            return judge_streams(load.factors, found)

        sides = {bed.here.name: Side(agent, role), HOST: Side(observer, OBSERVE)}
        try:
            measured = run_trial(sides, connect, load, is_given_up)
        except TreatmentRefused as refusal:
            # What the agent has from the server is the server's.
            where = str(server) if refusal.where == agent.endpoint else refusal.where
            raise TreatmentRefused(refusal.what, where=where, fix=refusal.fix) from refusal
        except TrialBroke as broke:
            raise TrialBroke(f"{broke}, with {server}", broke.sides) from broke
        except TrialFailed as failure:
            raise TrialFailed(f"{failure}, with {server}") from failure
        ours, host = measured.sides
        own = dict(ours.totals)
        theirs = _told(own.pop("server"))
        notes = judge_server(load.factors, server.name, own, theirs)
        record = SideRecord(server.name, opposite, theirs, ())
        all_sides = (replace(ours, totals=own), record, host)
        return replace(measured, sides=all_sides, notes=(*measured.notes, *waited, *notes))


def _greet(agent: AgentClient, bed: iperf3_server.Hosts) -> Mapping[str, Any]:
    server = bed.server
    asked: dict[str, Any] = {"address": server.address, "port": server.port, "from": bed.here.address}
    try:
        answer, _ = _patiently(agent, "iperf3.greet", asked, GREETING_PATIENCE_S, lambda: False)
    except AgentError as error:
        fix = SERVER_FIXES.get(str(error.data.get("kind")))
        raise BenchError(
            f"no iperf3 server serves there: {error.message}", where=str(server), fix=fix
        ) from error
    return answer


def _patiently(
    agent: AgentClient,
    method: str,
    asked: Mapping[str, Any],
    patience_s: Mapping[str, float],
    is_given_up: Callable[[], bool],
) -> tuple[dict[str, Any], float]:
    """Ask again while the server is kept; returns the answer and the seconds that this took.

    Raises the AgentError of the last time when that is over, and Abandoned once `is_given_up` says so.
    """
    began = time.monotonic()
    for pause_s in itertools.chain(PAUSES_S, itertools.repeat(PAUSES_S[-1])):
        try:
            return agent.call(method, **asked), time.monotonic() - began
        except AgentError as error:
            if time.monotonic() - began >= patience_s.get(str(error.data.get("kind")), 0.0):
                raise
        if is_given_up():
            raise Abandoned
        time.sleep(pause_s)
    raise AssertionError("the pauses have no end")


def _told(server: Any) -> dict[str, Any]:
    """The totals of the server's side, from what the agent has of it (docs/protocol.md, trial.end)."""
    of = {"source": 0, "sink": 0}
    for stream in server["streams"]:
        of[stream["role"]] += int(stream["bytes"])
    return {"speaks": "iperf3", "bytes_sent": of["source"], "bytes_received": of["sink"], **server}
