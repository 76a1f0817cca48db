"""Notes on a trial: where the instrument was the limit or late, and which data are missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.campaign.load_checks import TrialEndParameters, sum_zero_copy_counts
from vnetbench.results.records import HOST
from vnetbench.study.teams import ACTIVE_BACKUP

DRAIN_TIMEOUT_S = 5.0
"""How long a sink waits for the end of its streams (docs/protocol.md, trial.start)."""
MIN_SENT_SHARE_OF_DUE = 0.99
"""Share of the requests or datagrams due. If a source sends less, the instrument is the limit."""
MAX_SOCKET_DROP_SHARE = 0.01
"""Share of the datagrams that arrived. If a sink's socket drops more, the instrument is the limit."""
MAX_OVERHEAD_CPU_SHARE = 0.02
"""Share of a machine's CPU time. A trial gets a note if bench and samplers use more: the load may lack it."""
MAX_SAMPLE_DELAY_SHARE = 0.5
"""Share of the sampling interval. A trial gets a note if a sample is later."""
MAX_P99_REQUEST_DELAY_US = 1000.0
"""If the 99th percentile of an open loop's delays is larger, the instrument is the limit."""

MAX_DELAY_LINE_CPU_SHARE = 0.9
"""Share of one CPU. A delay line whose thread uses more is the limit."""
MAX_EXCESS_MEDIAN_FRAME_DELAY_US = 500.0
"""A trial gets a note if a delay line delays half of its frames by this much more than configured."""


def instrument_notes(
    idle_and_load_s: float, interval_s: float, totals_by_endpoint: Mapping[str, TrialEndParameters]
) -> list[str]:
    """Return notes on where the instrument was the limit, late or incomplete.

    Args:
        idle_and_load_s: Duration of the idle phase and the load together.
        interval_s: Sampling interval.
        totals_by_endpoint: Totals of every endpoint and of the host, by name.
    """
    notes = _bench_cpu_use_notes(idle_and_load_s, totals_by_endpoint)
    for name, totals in totals_by_endpoint.items():
        instrument = totals.get("instrument", {})
        late = float(instrument.get("sampler_lateness_max_s", 0.0))
        if late > MAX_SAMPLE_DELAY_SHARE * interval_s:
            notes.append(
                f"{name}: a sample was {late * 1e3:.0f} ms late (sampling interval {interval_s * 1e3:.0f} ms)"
            )
        if lost := int(instrument.get("events_lost", 0)):
            notes.append(f"{name}: {lost} samples were lost, because the bench read too slowly")
        # What is left of a trial with an iperf3 server is in its counts (`count_checks.check_server_totals`).
        if not totals.get("drained", True) and "server" not in totals:
            notes.append(f"{name}: data was still in flight {DRAIN_TIMEOUT_S:g} s after the end of the trial")
        if unanswered := int(totals.get("unanswered") or 0):
            notes.append(f"{name}: {unanswered} requests got no response and are not part of the latency")
        pacing = instrument.get("pacing") or {}
        due, sent = int(pacing.get("due", 0)), int(pacing.get("sent", 0))
        if sent < MIN_SENT_SHARE_OF_DUE * due:
            notes.append(f"{name}: the source sent only {100 * sent / due:.0f} % of the requested load")
        elif (late_us := pacing.get("lateness_p99_us") or 0.0) > MAX_P99_REQUEST_DELAY_US:
            notes.append(f"{name}: the source sent 1 % of its messages at least {late_us:.0f} µs late")
        account = sum_zero_copy_counts([totals])
        if account and account["copied"] > account["in_place"]:
            notes.append(f"{name}: the kernel copied most of the data of zero-copy sends")
        notes += _datagram_notes(name, totals.get("streams", ()))
        watched = (*totals.get("threads", ()), *totals.get("interfaces", ()))
        notes += [
            f"{name}: {each['name']} disappeared during the trial, so its counters end before the trial does"
            for each in watched
            if each.get("is_gone")
        ]
        if foreign := int(totals.get("foreign_connections", 0)):
            notes.append(f"{name}: the agent rejected {foreign} connections from other programs")
    return notes


def _datagram_notes(name: str, streams: Sequence[Mapping[str, Any]]) -> list[str]:
    dropped = sum(int(stream.get("socket_drops", 0)) for stream in streams)
    foreign = sum(int(stream.get("foreign_datagrams", 0)) for stream in streams)
    arrived = dropped + sum(int(s["datagrams"]) for s in streams if "socket_drops" in s)
    notes = []
    if dropped > MAX_SOCKET_DROP_SHARE * arrived:
        notes.append(
            f"{name}: its sockets dropped {100 * dropped / arrived:.0f} % of the arriving datagrams, so "
            "the receiver was the limit"
        )
    if foreign:
        notes.append(f"{name}: {foreign} datagrams from other programs arrived")
    return notes


def clock_notes(effective: Mapping[str, object]) -> list[str]:
    """Return a note if the endpoints have different clocks, so that there is no one-way delay."""
    if effective.get("shared_clock", True) is True:
        return []
    return [
        "one-way delays are not measured, because the endpoints have different kernels with different clocks"
    ]


def shared_device_cpus_notes(effective: Mapping[str, object]) -> list[str]:
    """Return a note if the tester and the device under test share CPUs."""
    why = effective.get("device_cpus_unavailable")
    if why is None:
        return []
    return [f"the device under test shares CPUs with the generator and slows it down ({why})"]


def delay_line_notes(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return notes on delay lines that were the limit or late, from their counters (`delay_line.read`)."""
    notes = []
    for number, line in enumerate(lines, start=1):
        for direction in ("forward", "reverse"):
            counts = line[direction]["counts"]
            delay_line = f"delay line {number} {direction}"
            busy = counts["cpu_s"] / counts["elapsed_s"]
            if busy > MAX_DELAY_LINE_CPU_SHARE:
                notes.append(
                    f"{delay_line}: the thread was busy {100 * busy:.0f} % of the time, so the delay line "
                    "was the limit"
                )
            if counts["queue_drops"]:
                notes.append(f"{delay_line}: the queue was full and dropped {counts['queue_drops']} frames")
            if counts["port_drops"]:
                notes.append(
                    f"{delay_line}: its output port rejected {counts['port_drops']} frames, because it was "
                    "down or out of memory"
                )
            if (late_us := counts["lateness_p50_us"] or 0.0) > MAX_EXCESS_MEDIAN_FRAME_DELAY_US:
                notes.append(f"{delay_line}: half of the frames were at least {late_us:.0f} µs late")
    return notes


def _bench_cpu_use_notes(
    idle_and_load_s: float, totals_by_endpoint: Mapping[str, TrialEndParameters]
) -> list[str]:
    """Return a note for each machine whose CPU time the instrument used noticeably.

    An endpoint with CPU times of its own is a machine of its own. The others run on the bench's machine.
    """
    used_s = {HOST: float(totals_by_endpoint[HOST].get("bench_cpu_s", 0.0))}
    for name, totals in totals_by_endpoint.items():
        machine = name if totals.get("cpu") else HOST
        sampler_s = float(totals.get("instrument", {}).get("sampler_cpu_s", 0.0))
        used_s[machine] = used_s.get(machine, 0.0) + sampler_s
    notes = []
    for machine, cpu_s in used_s.items():
        cpu_count = len(totals_by_endpoint[machine].get("cpu", ())) or 1
        share = cpu_s / (idle_and_load_s * cpu_count)
        if share > MAX_OVERHEAD_CPU_SHARE:
            instrument = "the bench and the agents' samplers" if machine == HOST else "the agent's sampler"
            notes.append(f"{machine}: {instrument} used {100 * share:.1f} % of the machine's CPU time")
    return notes


def team_notes(effective: Mapping[str, Any], load_s: float) -> list[str]:
    """Return a note for each team that could not be read, or that may have moved flows."""
    teams = effective.get("teams", ())
    unreadable = [team["unreadable"] for team in teams if "unreadable" in team]
    return unreadable + [
        f"{team['name']}: the switch moves flows between links every {team['rebalance_interval_s']:g} s, so "
        "flows may have left the link that was predicted for them before the load"
        for team in teams
        if "predicted" in team
        and team["policy"] != ACTIVE_BACKUP
        # Open vSwitch, balance-tlb and balance-alb move flows.
        and load_s >= team.get("rebalance_interval_s", math.inf)
    ]
