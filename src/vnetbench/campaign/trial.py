"""One trial on a running testbed: from asked levels to what every side counted."""

from __future__ import annotations

import queue
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.campaign.judging import (
    DRAIN_S,
    clock_remarks,
    judge_streams,
    judge_totals,
    refusal_of,
    remarks,
)
from vnetbench.campaign.workloads import parameters, stream_roles
from vnetbench.lab.bed import Bed
from vnetbench.lab.refusal import TrialFailed
from vnetbench.results.file import histogram_of, stream_sample
from vnetbench.results.records import HISTOGRAMS, Sample, SideRecord
from vnetbench.study.model import Level
from vnetbench.study.workloads import STREAM

GRACE_S = 5.0
POLL_S = 0.2


class Abandoned(Exception):
    """The trial was given up because the user asked for it."""


@dataclass
class _Side:
    """What one agent has reported so far."""

    agent: AgentClient
    role: str
    samples: list[Sample] = field(default_factory=list)
    totals: dict[str, Any] | None = None


@dataclass(frozen=True)
class Load:
    """The load of one trial, and how it is watched."""

    factors: Mapping[str, Level]
    duration_s: float
    interval_s: float
    workload: str = STREAM


@dataclass(frozen=True)
class Measured:
    """What came of it: a record for each side, what was read back from the streams, and remarks."""

    sides: tuple[SideRecord, ...]
    effective: Mapping[str, object]
    notes: tuple[str, ...]


def measure(
    bed: Bed, observer: AgentClient, load: Load, is_given_up: Callable[[], bool] = lambda: False
) -> Measured:
    """Run one trial; raises TreatmentRefused, TrialFailed, or Abandoned once `is_given_up` says so."""
    trial = secrets.token_hex(4)
    for agent in (*bed.agents.values(), observer):
        agent.forget_events()
    bench_s = time.process_time()
    try:
        streams = _connect(bed, observer, load, trial)
        effective = judge_streams(load.factors, streams)
        sides = _run(bed, observer, load, trial, is_given_up)
    except AgentError as error:
        raise TrialFailed(str(error)) from error
    finally:
        for agent in (*bed.agents.values(), observer):
            agent.send("trial.stop", trial=trial)
    sides["host"].totals = {**(sides["host"].totals or {}), "bench_cpu_s": time.process_time() - bench_s}
    return Measured(
        tuple(SideRecord(name, s.role, s.totals or {}, tuple(s.samples)) for name, s in sides.items()),
        effective,
        (
            *clock_remarks(effective),
            *remarks(load.duration_s, load.interval_s, {name: s.totals or {} for name, s in sides.items()}),
        ),
    )


def _connect(bed: Bed, observer: AgentClient, load: Load, trial: str) -> list[dict[str, Any]]:
    """Connect all streams of all pairs; returns what the kernel gave each of them, both sides."""
    here = stream_roles(load.factors)
    there = [{"id": s["id"], "role": "sink" if s["role"] == "source" else "source"} for s in here]
    pairs = list(zip(bed.testbed.side("a"), bed.testbed.side("b"), strict=True))
    common = {"trial": trial, "interval_s": load.interval_s}
    observing = observer.send("trial.prepare", workload="observe", streams=[], **common)
    workload = {**common, **parameters(load.workload, load.factors)}
    # A secret for each pair: a stream that reaches the wrong VM is then seen as foreign.
    keys = [secrets.token_hex(16) for _ in pairs]
    listeners = [
        bed.agents[b.name].send(
            "trial.prepare", **workload, streams=there, secret=key, listen={"address": b.address, "port": 0},
            interface=b.interface,
        )
        for (_, b), key in zip(pairs, keys, strict=True)
    ]  # fmt: skip
    ports = [
        _wait(bed.agents[b.name], f, "trial.prepare")["port"]
        for (_, b), f in zip(pairs, listeners, strict=True)
    ]
    connectors = [
        bed.agents[a.name].send(
            "trial.prepare", **workload, streams=here, secret=key,
            connect={"address": b.address, "port": port, "from": a.address}, interface=a.interface,
        )
        for (a, b), key, port in zip(pairs, keys, ports, strict=True)
    ]  # fmt: skip
    found: list[dict[str, Any]] = []
    for (a, _), future in zip(pairs, connectors, strict=True):
        found += _wait(bed.agents[a.name], future, "trial.prepare")["streams"]
    ready = [(b, bed.agents[b.name].send("trial.ready", trial=trial)) for _, b in pairs]
    for b, future in ready:
        found += _wait(bed.agents[b.name], future, "trial.ready")["streams"]
    observer.wait(observing, "trial.prepare")
    return found


def _wait(agent: AgentClient, future: Any, method: str) -> dict[str, Any]:
    """An agent's refusal of what the treatment asks is the treatment's; anything else the trial's."""
    try:
        return agent.wait(future, method)
    except AgentError as error:
        if refusal := refusal_of(error, agent.endpoint):
            raise refusal from error
        raise


def _run(
    bed: Bed, observer: AgentClient, load: Load, trial: str, is_given_up: Callable[[], bool]
) -> dict[str, _Side]:
    here = {str(s["role"]) for s in stream_roles(load.factors)}
    role_a = "both" if len(here) == 2 else here.pop()
    role_b = {"source": "sink", "sink": "source", "both": "both"}[role_a]
    sides = {
        e.name: _Side(bed.agents[e.name], role_a if e.side == "a" else role_b) for e in bed.testbed.endpoints
    }
    sides["host"] = _Side(observer, "observe")
    # The observer and the sinks watch before anything is sent.
    order = sorted(sides.values(), key=lambda s: ["observe", "sink", "both", "source"].index(s.role))
    started = [(s, s.agent.send("trial.start", trial=trial, duration_s=load.duration_s)) for s in order]
    for side, future in started:
        side.agent.wait(future, "trial.start")
    deadline = time.monotonic() + load.duration_s + DRAIN_S + GRACE_S
    for side in order[::-1]:
        _collect(side, trial, deadline, is_given_up)
    judge_totals([sides[e.name].totals or {} for e in bed.testbed.endpoints])
    return sides


def _collect(side: _Side, trial: str, deadline: float, is_given_up: Callable[[], bool]) -> None:
    """Take the events of one agent until its trial has ended."""
    name = side.agent.endpoint
    while side.totals is None:
        if is_given_up():
            raise Abandoned
        try:
            method, params = side.agent.events.get(timeout=POLL_S)
        except queue.Empty:
            if time.monotonic() > deadline:
                raise TrialFailed(f"{name}: the agent did not end the trial in time") from None
            continue
        if method == "agent.gone":
            raise TrialFailed(f"{name}: {params['reason']}")
        if params.get("trial") != trial:
            continue
        if method == "trial.sample":
            side.samples.append(_sample(params, keep_cpu=side.role == "observe"))
        elif method == "trial.end":
            if params.get("reason") != "done":
                raise TrialFailed(f"{name}: {params.get('fault') or 'the trial was stopped'}")
            side.totals = {k: v for k, v in params.items() if k != "trial"}


def _sample(params: Mapping[str, Any], *, keep_cpu: bool) -> Sample:
    return Sample(
        seq=int(params["seq"]),
        t_s=float(params["t_s"]),
        interval_s=float(params["interval_s"]),
        bytes_sent=int(params["bytes_sent"]),
        bytes_received=int(params["bytes_received"]),
        counters=params["counters"],
        # Namespaces share the host's kernel and CPUs: the observer's account of them is everyone's.
        cpu=tuple(params["cpu"]) if keep_cpu else (),
        streams=tuple(stream_sample(s) for s in params["streams"]),
        histograms={kind: histogram_of(params[kind]["buckets"]) for kind in HISTOGRAMS if kind in params},
    )
