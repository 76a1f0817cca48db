"""What is held against a trial: what was refused, sockets that got something else, totals; and remarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.agents.client import AgentError
from vnetbench.lab.refusal import TreatmentRefused, TrialFailed
from vnetbench.quantity import spell_bytes
from vnetbench.study.model import Level

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

Totals = Mapping[str, Any]
"""What an agent says in trial.end."""


def refusal_of(error: AgentError, endpoint: str) -> TreatmentRefused | None:
    """The refusal that an agent's error means, where it is of what the treatment asks; else None."""
    operation = str(error.data.get("operation", "")).lower()
    if "congestion" in operation:
        return TreatmentRefused(
            "the kernel does not have this congestion control",
            where="congestion_control",
            fix="vnetbench doctor lists those that it has; modprobe tcp_NAME adds one",
        )
    if "busy_poll" in operation:
        return TreatmentRefused(
            f"waiting = busy_poll was refused: {error.message}",
            where=endpoint,
            fix="run as root, or take block or spin",
        )
    if "datagram" in operation:
        return TreatmentRefused(
            error.message,
            where=endpoint,
            fix="take a datagram_size of at most the MTU less 28 bytes (IPv6: 48), fragments = on, or a "
            "larger mtu; where none gets through, let UDP pass on the way",
        )
    if "udp_segment" in operation or "udp_gro" in operation:
        return TreatmentRefused(
            error.message, where=endpoint, fix="take udp_gso and udp_gro off; Linux has them from 5.0 on"
        )
    return None


def judge_streams(factors: Mapping[str, Level], streams: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """What the sockets really have; raises TreatmentRefused where that is not what was asked."""
    effective: dict[str, object] = {}
    for name in (
        "congestion_control", "send_buffer_bytes", "receive_buffer_bytes", "mss", "no_delay", "busy_poll_us",
        "udp_segment_bytes", "udp_gro", "shared_clock",
    ):  # fmt: skip
        if values := sorted({s[name] for s in streams if s.get(name) is not None}, key=str):
            effective[name] = values[0] if len(values) == 1 else values
    asked = factors.get("congestion_control")
    found = effective.get("congestion_control")
    if asked is not None and found != asked:
        raise TreatmentRefused(
            f"congestion_control = {asked} did not take effect: {found} was read back",
            fix="vnetbench doctor lists those of this kernel",
        )
    if factors.get("waiting") == "busy_poll" and not all(s.get("busy_poll_us") for s in streams):
        raise TreatmentRefused(
            "waiting = busy_poll did not take effect: SO_BUSY_POLL was read back as 0",
            fix="a kernel built with CONFIG_NET_RX_BUSY_POLL has it",
        )
    buffer = factors.get("socket_buffer", "auto")
    if buffer != "auto":
        # The kernel doubles what is asked, for its own bookkeeping (socket(7), SO_RCVBUF), within its limits.
        granted = min(int(s[name]) for s in streams for name in ("send_buffer_bytes", "receive_buffer_bytes"))
        if granted < 2 * int(buffer):
            raise TreatmentRefused(
                f"socket_buffer = {spell_bytes(int(buffer))} did not take effect: "
                f"{spell_bytes(granted // 2)} was read back",
                fix=f"raise its limits: sysctl -w net.core.wmem_max={buffer} net.core.rmem_max={buffer}",
            )
    return effective


def clock_remarks(effective: Mapping[str, object]) -> list[str]:
    """What lacks where the two ends of a flow of datagrams do not have the same clock."""
    if effective.get("shared_clock", True) is True:
        return []
    return ["no one-way delay: the two ends run under different kernels, whose clocks are not compared"]


def judge_totals(totals: Sequence[Totals]) -> None:
    """Every byte that was sent must have arrived, as TCP promises: a difference is the instrument's fault.

    So it is where datagrams that were sent have neither arrived nor been lost. Raises TrialFailed. `totals`
    are those of all endpoints.
    """
    if not all(t.get("drained", False) for t in totals):
        return
    flows = [stream for t in totals for stream in t.get("streams", ()) if "datagrams" in stream]
    if flows:
        _judge_datagrams(flows)
        return
    sent = sum(int(t["bytes_sent"]) for t in totals)
    received = sum(int(t["bytes_received"]) for t in totals)
    if sent != received:
        raise TrialFailed(f"the instrument miscounted: {sent} bytes were sent and {received} arrived")


def _judge_datagrams(flows: Sequence[Mapping[str, Any]]) -> None:
    sources = [flow for flow in flows if flow["role"] == "source"]
    sinks = [flow for flow in flows if flow["role"] == "sink"]
    sent = sum(int(flow["datagrams"]) for flow in sources)
    arrived = sum(int(flow["datagrams"]) - int(flow["duplicates"]) for flow in sinks)
    lost = sum(int(flow["lost"]) for flow in sinks)
    if sent != arrived + lost or any(int(flow["lost"]) < 0 for flow in sinks):
        raise TrialFailed(
            f"the instrument miscounted: {sent} datagrams were sent, {arrived} arrived and {lost} were lost"
        )


def remarks(duration_s: float, interval_s: float, sides: Mapping[str, Totals]) -> list[str]:
    """What a reader must know about a trial: where the instrument was the limit, or did not keep its times.

    `sides` has the totals of every endpoint and of the host.
    """
    notes = []
    own_s = float(sides["host"].get("bench_cpu_s", 0.0))
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
        if not totals.get("drained", True):
            notes.append(f"{name}: data was still on its way {DRAIN_S:g} s after the end")
        if unanswered := int(totals.get("unanswered") or 0):
            notes.append(f"{name}: {unanswered} requests were never answered, and are in no latency")
        pacing = instrument.get("pacing") or {}
        due, sent = int(pacing.get("due", 0)), int(pacing.get("sent", 0))
        if sent < KEPT_SHARE * due:
            notes.append(f"{name}: only {100 * sent / due:.0f} % of what was due could be sent")
        elif (late_us := pacing.get("late_p99_us") or 0.0) > LATE_REQUEST_US:
            notes.append(f"{name}: 1 % of what was due was sent {late_us:.0f} µs late or later")
        notes += _datagram_remarks(name, totals.get("streams", ()))
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
