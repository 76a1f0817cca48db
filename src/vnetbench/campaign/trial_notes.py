"""What a reader must know about a trial: where the instrument was the limit, and what lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.campaign.load_checks import Totals, lent
from vnetbench.results.records import HOST

DRAIN_S = 5.0
"""As long as a sink waits for the end of its streams (docs/protocol.md, trial.start)."""
KEPT_SHARE = 0.99
"""Of what was due: a source that sends less does not keep its rate, and the instrument is the limit."""
DROPPED_SHARE = 0.01
"""Of what came: where the sink's own socket drops more the instrument is the limit, and not the path."""
OWN_SHARE = 0.1
"""Of one CPU: what the instrument takes for itself beyond this is said, for the load may have missed it."""
LATE_SHARE = 0.5
"""A sampler later than this share of its interval is said: its samples are not what they claim."""
LATE_REQUEST_US = 1000.0
"""An open loop whose requests come later than this does not keep its rate: the instrument is the limit."""

BUSY_LINE = 0.9
"""Of one CPU: a delay line's thread that is busier was the limit of what passed it."""
LATE_FRAME_US = 500.0
"""A delay line that holds half of its frames so much longer than asked is another link than that."""


def remarks(duration_s: float, interval_s: float, sides: Mapping[str, Totals]) -> list[str]:
    """What a reader must know about a trial: where the instrument was the limit, or did not keep its times.

    `sides` has the totals of every endpoint and of the host.
    """
    notes = []
    own_s = float(sides[HOST].get("bench_cpu_s", 0.0))
    own_s += sum(float(totals.get("instrument", {}).get("sampler_cpu_s", 0.0)) for totals in sides.values())
    if own_s > OWN_SHARE * duration_s:
        notes.append(f"bench and samplers took {100 * own_s / duration_s:.0f} % of a CPU themselves")
    for name, totals in sides.items():
        instrument = totals.get("instrument", {})
        late = float(instrument.get("sampler_late_max_s", 0.0))
        if late > LATE_SHARE * interval_s:
            notes.append(
                f"{name}: a sample was {late * 1e3:.0f} ms late (interval {interval_s * 1e3:.0f} ms)"
            )
        if lost := int(instrument.get("events_lost", 0)):
            notes.append(f"{name}: the bench read too slowly and {lost} samples were lost")
        # What is left of a trial with an iperf3 server is in its counts (`counts.judge_server`).
        if not totals.get("drained", True) and "server" not in totals:
            notes.append(f"{name}: data was still on its way {DRAIN_S:g} s after the end")
        if unanswered := int(totals.get("unanswered") or 0):
            notes.append(f"{name}: {unanswered} requests were never answered, and are in no latency")
        pacing = instrument.get("pacing") or {}
        due, sent = int(pacing.get("due", 0)), int(pacing.get("sent", 0))
        if sent < KEPT_SHARE * due:
            notes.append(f"{name}: only {100 * sent / due:.0f} % of what was due could be sent")
        elif (late_us := pacing.get("late_p99_us") or 0.0) > LATE_REQUEST_US:
            notes.append(f"{name}: 1 % of what was due was sent {late_us:.0f} µs late or later")
        account = lent([totals])
        if account and account["copied"] > account["in_place"]:
            notes.append(f"{name}: the kernel copied most of what was to be sent without a copy")
        notes += _datagram_remarks(name, totals.get("streams", ()))
        watched = (*totals.get("threads", ()), *totals.get("interfaces", ()))
        notes += [
            f"{name}: {each['name']} was gone before the end, and is counted until then"
            for each in watched
            if each.get("gone")
        ]
        if foreign := int(totals.get("foreign_connections", 0)):
            notes.append(f"{name}: {foreign} foreign connections were turned away")
    return notes


def _datagram_remarks(name: str, streams: Sequence[Mapping[str, Any]]) -> list[str]:
    dropped = sum(int(stream.get("socket_drops", 0)) for stream in streams)
    foreign = sum(int(stream.get("foreign", 0)) for stream in streams)
    came = dropped + sum(int(s["datagrams"]) for s in streams if "socket_drops" in s)
    notes = []
    if dropped > DROPPED_SHARE * came:
        notes.append(
            f"{name}: its own sockets dropped {100 * dropped / came:.0f} % of the datagrams that came: the "
            "receiver was the limit"
        )
    if foreign:
        notes.append(f"{name}: {foreign} foreign datagrams came")
    return notes


def clock_remarks(effective: Mapping[str, object]) -> list[str]:
    """What lacks where the two ends of a flow of datagrams do not have the same clock."""
    if effective.get("shared_clock", True) is True:
        return []
    return ["no one-way delay: the two ends run under different kernels, whose clocks are not compared"]


def device_remarks(effective: Mapping[str, object]) -> list[str]:
    """What a reader must know where tester and device under test share their CPUs and should not."""
    why = effective.get("device_not_apart")
    if why is None:
        return []
    return [f"the device under test had no CPUs of its own, so it slows the generator down instead: {why}"]


def line_remarks(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where a delay line was the limit, or late: what each says of itself (`line.read`)."""
    notes = []
    for number, line in enumerate(lines, start=1):
        for way in ("forward", "reverse"):
            counts = line[way]["counts"]
            name = f"delay line {number} {way}"
            busy = counts["cpu_s"] / counts["elapsed_s"]
            if busy > BUSY_LINE:
                notes.append(f"{name}: its thread was busy {100 * busy:.0f} % of the time and was the limit")
            if counts["overflowed"]:
                notes.append(f"{name}: its queue was full, and {counts['overflowed']} frames were lost there")
            if counts["refused"]:
                notes.append(f"{name}: {counts['refused']} frames were not taken at its far end")
            if (late_us := counts["late_p50_us"] or 0.0) > LATE_FRAME_US:
                notes.append(f"{name}: half of its frames were {late_us:.0f} µs late or later")
    return notes
