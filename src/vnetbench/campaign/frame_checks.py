"""Checks of the frame counts of a run: faults of the ports, the device, the link and the instrument."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from vnetbench.campaign.frame_counts import FrameTotals
from vnetbench.campaign.load_checks import stream_totals
from vnetbench.estimate.search_steps import is_generator_behind
from vnetbench.failure_kinds import NO_CPU_TIME
from vnetbench.lab.errors import TreatmentRefused, TrialFailed
from vnetbench.quantity import format_share
from vnetbench.results.records import HOST, EndpointRecord
from vnetbench.study.factors.frame_factors import FRAME_LOAD
from vnetbench.study.model import Level

MAX_RETURNED_FRAME_SHARE = 0.05
"""Share of the sent frames. If more come back to their sender, the network has a loop."""
FOREIGN_SHARE, MIN_FOREIGN = 0.001, 100
"""Share of the received frames, and count. Every link carries fewer (ARP, neighbour discovery)."""
MIN_COUNTED_SHARE_IF_PASSED = 0.5
"""Share of the sent frames that an interface counts at least, if the frames passed it."""


def check_frame_counts(counts: FrameTotals) -> None:
    """Check that frames were sent and that the counts are possible.

    Raises:
        TreatmentRefused: A port refuses all frames, or the network has a loop.
        TrialFailed: The instrument sent nothing or miscounted.
    """
    if not counts.total_sent and counts.rejected_by_source_ports:
        raise TreatmentRefused(
            f"the ports refused all {counts.rejected_by_source_ports} frames, so no frame was sent",
            fix="check that the ports are up and have a carrier (ip -br link), and read their drivers' "
            "error counters (ip -s link)",
        )
    if not counts.total_sent:
        raise TrialFailed("no frame was sent: the generators got no CPU time", kind=NO_CPU_TIME)
    for name, foreign in counts.foreign_frames_by_endpoint.items():
        if foreign.own_returned > max(MIN_FOREIGN, MAX_RETURNED_FRAME_SHARE * counts.total_sent):
            raise TreatmentRefused(
                f"the network has a loop: {foreign.own_returned} frames that {name} sent came back to it",
                where=name,
                fix="remove the second path between the ports, or disable hairpin mode",
            )
    for direction, received in counts.received_by_direction.items():
        if received > counts.sent_by_direction[direction]:
            raise TrialFailed(
                f"the agents' counts contradict each other: {counts.sent_by_direction[direction]} frames "
                f"were sent in the direction {direction}, but {received} frames arrived"
            )


def abnormal_frame_notes(counts: FrameTotals) -> Iterator[str]:
    """Yield notes about duplicates, drops in the instrument's rings and foreign frames."""
    if counts.duplicates:
        share = format_share(counts.duplicates / max(1, counts.total_received))
        yield f"the device duplicated {counts.duplicates} frames ({share} of the frames received)"
    for name, dropped in counts.sink_drops_by_endpoint.items():
        yield (
            f"the bench's receive ring at {name} was full and dropped {dropped} frames, which count as "
            "received. "
            "Lower the load, or run as root to receive with XDP"
        )
    usual_count = max(MIN_FOREIGN, FOREIGN_SHARE * counts.total_received)
    for name, foreign in counts.foreign_frames_by_endpoint.items():
        if foreign.own_returned:
            yield f"{foreign.own_returned} frames that {name} sent came back to {name}"
        if foreign.from_other_trials > usual_count:
            yield (
                f"{foreign.from_other_trials} frames of another pair or an earlier step arrived at {name}. "
                "The device floods unknown addresses or delays frames for a long time"
            )
        if foreign.from_other_senders > usual_count:
            example = f" (for example {foreign.example})" if foreign.example else ""
            yield (
                f"{foreign.from_other_senders} frames of other senders arrived at {name}{example}. They add "
                "load to the device"
            )


def offered_load_notes(counts: FrameTotals, factors: Mapping[str, Level], duration_s: float) -> Iterator[str]:
    """Yield a note if the generators did not reach a requested rate."""
    load = factors.get(FRAME_LOAD.name)
    if not isinstance(load, int | float):
        return
    due = round(load * duration_s) * counts.pair_direction_count
    if is_generator_behind(counts.total_sent, due, counts.pair_direction_count):
        yield (
            f"the generator sent only {format_share(counts.total_sent / due)} of the requested load, so the "
            "generator is the limit. Use more generators"
        )


def format_loss_of_all_frames(sent: int, endpoints: Sequence[EndpointRecord]) -> str:
    """Return the message for a run in which no frame arrived."""
    location = locate_loss_of_all_frames(endpoints)
    return (
        f"none of {sent} frames of the load arrived. {location}"
        if location
        else f"none of {sent} frames of the load arrived"
    )


def locate_loss_of_all_frames(endpoints: Sequence[EndpointRecord]) -> str:
    """Return where frames stop, from the counters of observed interfaces; empty if there are none."""
    received, transmitted = Counter[str](), Counter[str]()
    for endpoint in endpoints:
        for sample in endpoint.samples:
            for name, counted in (
                sample.observation.interface_counters if sample.observation else {}
            ).items():
                label = name if endpoint.name == HOST else f"{endpoint.name}'s {name}"
                received[label] += counted.get("rx_packets", 0)
                transmitted[label] += counted.get("tx_packets", 0)
    sent = sum(
        int(stream.get("frames_sent", 0))
        for endpoint in endpoints
        for stream in stream_totals(endpoint.totals)
    )
    if not received or not sent:
        return ""
    entered_at = [name for name, count in received.items() if count > MIN_COUNTED_SHARE_IF_PASSED * sent]
    left_at = [name for name, count in transmitted.items() if count > MIN_COUNTED_SHARE_IF_PASSED * sent]
    if left_at:
        return f"The frames left the device at {', '.join(left_at)}"
    if entered_at:
        return f"The frames entered the device at {', '.join(entered_at)} and did not leave it"
    return f"The frames did not reach {', '.join(received)}"
