"""One trial on a running testbed: from asked levels to what every side counted."""

from __future__ import annotations

import queue
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from vnetbench.agents.client import AgentClient, AgentError
from vnetbench.campaign.count_checks import wrong_counts
from vnetbench.campaign.frame_counts import counts_of
from vnetbench.campaign.frame_checks import frame_remarks, judge_frames, load_remarks, nothing_passes
from vnetbench.campaign.frame_ports import way_of_frames, ways_of_frames
from vnetbench.campaign.load_checks import judge_load, judge_streams, judge_threads, lent, refusal_of
from vnetbench.campaign.trial_notes import DRAIN_S, clock_remarks, line_remarks, remarks
from vnetbench.campaign.agent_parameters import (
    parameters,
    share_cpus,
    side_role,
    spinning_threads,
    stream_roles,
    thread_placement,
)
from vnetbench.lab.testbed import Bed, pairs
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TrialFailed
from vnetbench.results.agent_events import histogram_of, stream_sample, watched_of
from vnetbench.results.records import HISTOGRAMS, HOST, OBSERVE, Sample, SideRecord, StepRecord
from vnetbench.study.factors.load_factors import VSOCK
from vnetbench.study.model import Level, SearchAsked
from vnetbench.study.workloads import MIXED, OF_FRAMES, STREAM

GRACE_S = 5.0
VMADDR_CID_HOST = 2
"""The host's address of VSOCK, as its guests know it (vsock(7))."""
POLL_S = 0.2


class Abandoned(Exception):
    """The trial was given up because the user asked for it; `sides` have what had come by then."""

    def __init__(self, sides: tuple[SideRecord, ...] = ()) -> None:
        super().__init__()
        self.sides = sides


@dataclass(frozen=True)
class _Fault:
    """What went wrong at one side; the lower its rank, the nearer it is to the cause."""

    rank: int
    what: str


@dataclass
class Side:
    """One agent's part in a trial, and what it has reported so far."""

    agent: AgentClient
    role: str
    keeps_cpu: bool = False
    """Whether its account of CPUs is kept: it tells of a kernel that no other side tells of."""
    samples: list[Sample] = field(default_factory=list)
    totals: dict[str, Any] | None = None
    fault: _Fault | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come."""
        return self.totals is not None or (self.fault is not None and self.fault.rank < 2)

    def take_events(self, trial: str, wait_s: float = 0.0) -> None:
        """Take what has come; where nothing has, wait for one event so long."""
        with suppress(queue.Empty):
            self._take(trial, *self.agent.events.get(wait_s > 0, wait_s or None))
            while not self.is_over:
                self._take(trial, *self.agent.events.get_nowait())

    def _take(self, trial: str, method: str, params: Mapping[str, Any]) -> None:
        name = self.agent.endpoint
        if method == "agent.gone":
            self.fault = _Fault(0, f"{name}: {params['reason']}")
        elif params.get("trial") != trial:
            return
        elif method == "trial.sample":
            self.samples.append(_sample(params, keep_cpu=self.keeps_cpu or self.role == OBSERVE))
        elif method == "trial.end":
            self.totals = {k: v for k, v in params.items() if k != "trial"}
            if params.get("reason") == "fault":
                fault = str(params.get("fault"))
                self.fault = _Fault(2 if " broke: " in fault else 1, f"{name}: {fault}")


@dataclass(frozen=True)
class Series:
    """What a trial that is a series of steps asks, and how its steps are kept."""

    asked: SearchAsked
    seed: int
    recorded: Callable[[], tuple[StepRecord, ...]]
    """Its steps that are over."""
    keep: Callable[[StepRecord], None]
    """Makes a step durable."""
    forget: Callable[[], None]
    """Removes them all: the trial is to be begun anew."""
    is_left: Callable[[], bool] = lambda: False
    """Whether no further step is to be begun: the user wants to leave, and those that are over are kept."""


@dataclass(frozen=True)
class Load:
    """The load of one trial, and how it is watched."""

    factors: Mapping[str, Level]
    duration_s: float
    interval_s: float
    workload: str = STREAM
    idle_s: float = 0.0
    """How long `mixed` has only requests, before `duration_s`; whole intervals."""
    calibration: Mapping[str, object] | None = None
    """What an earlier trial of the same treatment was calibrated to: send_mode = auto stays with it."""

    burst_frames: int | None = None
    """Of frames: the most that each direction of a pair sends, as fast as it goes."""
    settle_s: float = SearchAsked.settle_s
    """Of frames: a trial has ended when none has come for so long after its load."""
    series: Series | None = None
    """Of frames: the steps that come before the load, and find it."""

    @property
    def whole_s(self) -> float:
        """Of the trial, both phases together."""
        return self.idle_s + self.duration_s


@dataclass(frozen=True)
class Measured:
    """What came of it: a record for each side, what was read back from the streams, and remarks."""

    sides: tuple[SideRecord, ...]
    effective: Mapping[str, object]
    notes: tuple[str, ...]
    steps: tuple[StepRecord, ...] = ()
    """Those that came before it, where the trial is a series."""


class TrialBroke(TrialFailed):
    """A trial that failed under load; what every side had counted by then is kept."""

    def __init__(self, what: str, sides: tuple[SideRecord, ...]) -> None:
        super().__init__(what)
        self.sides = sides


def measure(
    bed: Bed, observer: AgentClient, load: Load, is_given_up: Callable[[], bool] = lambda: False
) -> Measured:
    """Run one trial; raises TreatmentRefused, TrialFailed, or Abandoned once `is_given_up` says so."""
    role_a, role_b = side_roles(load)
    sides = {
        e.name: Side(bed.agents[e.name], role_a if e.side == "a" else role_b, e.has_own_kernel)
        for e in bed.endpoints
    }
    sides |= {name: Side(bed.agents[name], OBSERVE) for name in bed.between()}
    sides[HOST] = Side(observer, OBSERVE)
    bed.begin_line_counts()
    measured = run_trial(sides, lambda trial: _connect(bed, observer, load, trial), load, is_given_up)
    measured = _with_lines(measured, bed.line_counts())
    endpoints = [side for side in measured.sides if side.role != OBSERVE]
    if load.workload in OF_FRAMES:
        counts = counts_of(endpoints, load.factors)
        judge_frames(counts)
        nothing = () if counts.all_received else (nothing_passes(counts.all_sent, measured.sides),)
        remarked = (*frame_remarks(counts), *load_remarks(counts, load.factors, load.duration_s))
        return replace(measured, notes=(*nothing, *remarked, *measured.notes))
    if wrong := wrong_counts(load.workload, load.whole_s, endpoints):
        raise TrialBroke(wrong, measured.sides)
    notes = judge_load(load.factors, load.whole_s, endpoints)
    return replace(measured, notes=(*notes, *measured.notes))


def _with_lines(measured: Measured, lines: Sequence[Mapping[str, Any]]) -> Measured:
    """With what delay lines have counted, among the host's totals, and where they were the limit."""
    if not lines:
        return measured
    kept = tuple(
        replace(side, totals={**side.totals, "delay_lines": list(lines)}) if side.endpoint == HOST else side
        for side in measured.sides
    )
    return replace(measured, sides=kept, notes=(*line_remarks(lines), *measured.notes))


def run_trial(
    sides: Mapping[str, Side],
    connect: Callable[[str], Mapping[str, object]],
    load: Load,
    is_given_up: Callable[[], bool],
) -> Measured:
    """Run one trial of these sides, the observer among them as `host`; raises as `measure` does.

    `connect` takes the trial's name, prepares it on all sides, and returns what the streams' sockets and
    threads really have, once judged.
    """
    trial = secrets.token_hex(4)
    for side in sides.values():
        side.agent.forget_events()
    bench_s = time.process_time()
    try:
        effective = dict(connect(trial))
        _run(sides, load, trial, is_given_up)
    except AgentError as error:
        raise refusal_of(error, error.endpoint) or TrialFailed(str(error)) from error
    finally:
        for side in sides.values():
            side.agent.send("trial.stop", trial=trial)
    sides[HOST].totals = {**(sides[HOST].totals or {}), "bench_cpu_s": time.process_time() - bench_s}
    records = _records(sides)
    if faults := [side.fault for side in sides.values() if side.fault]:
        # The cause comes before what followed from it at the other sides.
        raise TrialBroke("; ".join(fault.what for fault in sorted(faults, key=lambda f: f.rank)), records)
    totals = {record.endpoint: record.totals for record in records}
    if account := lent(list(totals.values())):
        effective["lent"] = account
    notes = (*clock_remarks(effective), *remarks(load.whole_s, load.interval_s, totals))
    return Measured(records, effective, notes)


def _records(sides: Mapping[str, Side]) -> tuple[SideRecord, ...]:
    return tuple(SideRecord(name, s.role, s.totals or {}, tuple(s.samples)) for name, s in sides.items())


def side_roles(load: Load) -> tuple[str, str]:
    """The roles of both ends of a pair."""
    here, there = (side_role(stream_roles(load.workload, load.factors, side)) for side in "ab")
    return here, there


def _connect(bed: Bed, observer: AgentClient, load: Load, trial: str) -> dict[str, object]:
    """Connect all streams of all pairs; returns what their sockets and threads really have, once judged."""
    here, there = (stream_roles(load.workload, load.factors, side) for side in "ab")
    joined = pairs(bed)
    common = {"trial": trial, "interval_s": load.interval_s}
    watching = [(observer, bed.watch())]
    watching += [(bed.agents[name], {"interfaces": list(names)}) for name, names in bed.between().items()]
    observing = [
        (agent, agent.send("trial.prepare", workload=OBSERVE, streams=[], watch=watch, **common))
        for agent, watch in watching
    ]
    workload = {**common, **parameters(load.workload, load.factors)}
    if load.workload in OF_FRAMES:
        burst = load.burst_frames
        generators = int(load.factors["generators"])
        workload |= {"settle_s": load.settle_s, "frames": None if burst is None else -(-burst // generators)}
    if load.factors.get("waiting") == "spin" and load.factors.get("threads", "auto") == "auto":
        workload["threads"] = spinning_threads(load.factors, bed)
    if load.workload == MIXED:
        workload["idle_s"] = load.idle_s
    placed = thread_placement(load.workload, load.factors, bed, workload)
    if load.workload in OF_FRAMES:
        workload["shares_cpus"] = share_cpus(load.workload, load.factors, bed, placed)
    # A secret for each pair: a stream that reaches the wrong VM is then seen as foreign.
    keys = [secrets.token_hex(16) for _ in joined]

    def prepare(at: Endpoint, key: str, **how: object) -> Future[dict[str, Any]]:
        return bed.agents[at.name].send(
            "trial.prepare", **workload, secret=key, interface=at.interface, system=at.has_own_kernel,
            thread_cpus=placed[at.name], **how,
        )  # fmt: skip

    def answers(sent: Iterable[tuple[Endpoint, Future[dict[str, Any]]]], method: str) -> dict[str, Any]:
        return {at.name: bed.agents[at.name].wait(future, method) for at, future in sent}

    keyed = [(a, b, key) for (a, b), key in zip(joined, keys, strict=True)]
    if load.workload in OF_FRAMES:
        ends = [end for a, b, key in keyed for end in ((a, b, here, key), (b, a, there, key))]
        opening = [
            (at, prepare(at, key, streams=streams, **way_of_frames(bed, at, to, load.factors)))
            for at, to, streams, key in ends
        ]
        ready = answers(opening, "trial.prepare")
    else:
        listening = [
            (b, prepare(b, key, streams=there, listen=_place_of(b, load.factors))) for _, b, key in keyed
        ]
        ports = answers(listening, "trial.prepare")
        connecting = [
            (a, prepare(a, key, streams=here, connect=_way_to(b, ports[b.name]["port"], a, load.factors)))
            for a, b, key in keyed
        ]
        ready = answers(connecting, "trial.prepare")
        waiting = [(b, bed.agents[b.name].send("trial.ready", trial=trial)) for _, b in joined]
        ready |= answers(waiting, "trial.ready")
    for agent, future in observing:
        agent.wait(future, "trial.prepare")
    return {
        **judge_streams(load.factors, [stream for answer in ready.values() for stream in answer["streams"]]),
        **judge_threads(placed, {name: answer["thread_cpus"] for name, answer in ready.items()}),
        **ways_of_frames(ready),
        **({"refused_frames": bed.refused_frames} if load.workload in OF_FRAMES else {}),
    }


def _place_of(b: Endpoint, factors: Mapping[str, Level]) -> dict[str, object]:
    """Where side b listens."""
    if factors.get("transport") == VSOCK:
        return {"vsock": {"port": None}}
    return {"address": b.address_of(str(factors.get("ip_version", "4"))), "port": 0}


def _way_to(b: Endpoint, port: int, a: Endpoint, factors: Mapping[str, Level]) -> dict[str, object]:
    """How side a connects to it."""
    if factors.get("transport") == VSOCK:
        return {"vsock": {"cid": VMADDR_CID_HOST, "port": port}}
    ip_version = str(factors.get("ip_version", "4"))
    return {"address": b.address_of(ip_version), "port": port, "from": a.address_of(ip_version)}


def _run(sides: Mapping[str, Side], load: Load, trial: str, is_given_up: Callable[[], bool]) -> None:
    # The observer and the sinks watch before anything is sent.
    order = sorted(sides.values(), key=lambda s: [OBSERVE, "sink", "both", "source"].index(s.role))
    started = [(s, s.agent.send("trial.start", trial=trial, duration_s=load.whole_s)) for s in order]
    for side, future in started:
        side.agent.wait(future, "trial.start")
    _collect(sides, trial, load.whole_s, is_given_up)


def _collect(
    sides: Mapping[str, Side], trial: str, duration_s: float, is_given_up: Callable[[], bool]
) -> None:
    """Take the events of all agents until each has ended its trial; a fault of one ends it for all."""
    deadline = time.monotonic() + duration_s + DRAIN_S + GRACE_S
    is_broken = False
    while pending := [side for side in sides.values() if not side.is_over]:
        if is_given_up():
            raise Abandoned(_records(sides))
        # All send about as often: while one is waited for the others' events gather.
        pending[0].take_events(trial, wait_s=POLL_S)
        for side in pending[1:]:
            side.take_events(trial)
        if not is_broken and any(side.fault for side in sides.values()):
            is_broken = True
            deadline = min(deadline, time.monotonic() + GRACE_S)
            for side in sides.values():
                side.agent.send("trial.stop", trial=trial)
        if time.monotonic() > deadline:
            for side in (side for side in pending if not side.is_over):
                side.fault = _Fault(1, f"{side.agent.endpoint}: the agent did not end the trial in time")


def _sample(params: Mapping[str, Any], *, keep_cpu: bool) -> Sample:
    return Sample(
        seq=int(params["seq"]),
        t_s=float(params["t_s"]),
        interval_s=float(params["interval_s"]),
        bytes_sent=int(params["bytes_sent"]),
        bytes_received=int(params["bytes_received"]),
        counters=params["counters"],
        # Where endpoints share the host's kernel and CPUs the observer's account of them is everyone's.
        cpu=tuple(params["cpu"]) if keep_cpu else (),
        streams=tuple(stream_sample(s) for s in params["streams"]),
        histograms={kind: histogram_of(params[kind]["buckets"]) for kind in HISTOGRAMS if kind in params},
        watched=watched_of(params),
    )
