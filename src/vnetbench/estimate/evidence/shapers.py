"""Evidence of shapers anywhere in the path's namespaces: also on ifb and other interfaces without samples.

A shaper can be on an interface without samples: an ifb that a port's ingress redirects to, or an interface
that the testbed does not list. The agent reads all queueing disciplines (qdiscs) at the start and the end of
a trial, so these metrics cover the whole trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    effective_knob_value,
    largest,
    percent_at_most_100,
    ratio,
    smallest,
    sum_known_values,
    to_number,
    total_of_counter,
)
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.path_interfaces import interfaces_on_path, list_interfaces
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.results.records import HOST, EndpointRecord, mapping_or_empty

_ROOT = "root"
LARGEST_PACKET_BYTES = 64 * 1024
"""Largest packet that leaves the stack unsegmented (GSO_LEGACY_MAX_SIZE, include/linux/netdevice.h), unless
an interface permits more. A shaper can get it as a whole. A NIC that divides packets itself counts the parts,
so its counters do not show how large they were."""
_USUAL_MSS_BYTES = 1448
"""Ethernet's usual segment size, for streams that do not report theirs."""
_MIN_SEGMENTS_PER_LARGE_PACKET = 2
"""Segments in a counted packet from which on the counter shows large packets."""

SHAPER_EVIDENCE_METRICS = (
    EvidenceMetric(
        "shaper_rate_share_percent",
        "% of its rate",
        "use of the busiest shaper",
        "traffic through the most used queueing discipline with a configured rate, as a share of that rate. "
        "At most 100 %, although a shaper permits bursts above its rate",
        ("path_state.qdiscs[].sent_bytes", "path_state.qdiscs[].rate_bps"),
    ),
    EvidenceMetric(
        "shaper_delays_per_s",
        "1/s",
        "packets held back by the busiest shaper",
        "times per second that the most used queueing discipline with a configured rate delayed a packet, or "
        "dropped one",
        ("path_state.qdiscs[].overlimits", "path_state.qdiscs[].drops"),
    ),
    EvidenceMetric(
        "shaper_delays_per_packet",
        "1",
        "delays per packet of the busiest shaper",
        "times that the most used queueing discipline with a configured rate delayed a packet, divided by "
        "the packets that it sent. A large packet (TSO, GSO) counts once. A full link delays nearly every "
        "packet",
        ("path_state.qdiscs[].overlimits", "path_state.qdiscs[].sent_packets", "segments_out", "tx_packets"),
    ),
    EvidenceMetric(
        "shaper_drops_per_s",
        "1/s",
        "packets dropped by shapers",
        "drops per second of the queueing discipline with a configured rate that drops the most packets",
        ("path_state.qdiscs[].drops",),
    ),
    EvidenceMetric(
        "unsampled_queue_drops_per_s",
        "1/s",
        "packets dropped by queues without samples",
        "packets per second that queueing disciplines drop on interfaces without samples, such as ifb, sum "
        "of all network namespaces on the path",
        ("path_state.qdiscs[].drops",),
    ),
)


@dataclass(frozen=True)
class Shaper:
    """A queueing discipline with a configured rate, with its counters of one trial."""

    endpoint: str
    """The endpoint, or the observer, in whose network namespace it is."""
    interface: str
    kind: str
    rate_share_percent: float
    """Its traffic as a share of its rate."""
    delay_count: float
    """Times that it delayed a packet."""
    drop_count: float
    sent_segment_count: float | None
    """Packets that it sent, where each segment of a large one counts; None if the agent does not report
    them."""


def shaper_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of SHAPER_EVIDENCE_METRICS."""
    trial_s = data.steady_part.trial.duration_s
    shaper = _busiest_shaper(data)
    values: EvidenceValues = {
        "shaper_drops_per_s": ratio(largest(each.drop_count for each in _shapers(data)), trial_s),
        "unsampled_queue_drops_per_s": unsampled_queue_drops_per_s(data),
    }
    if shaper is not None:
        values |= {
            "shaper_rate_share_percent": shaper.rate_share_percent,
            "shaper_delays_per_s": ratio(shaper.delay_count + shaper.drop_count, trial_s),
            "shaper_delays_per_packet": ratio(
                shaper.delay_count
                * (_segments_per_packet(data) or _segments_in_largest_possible_packet(data)),
                shaper.sent_segment_count,
            ),
        }
    return values


def shaper_description(data: TrialData) -> str:
    """Return where the busiest shaper is, such as `interface ifb0 of b1, tbf`; empty without a shaper."""
    shaper = _busiest_shaper(data)
    if shaper is None:
        return ""
    where = "" if shaper.endpoint == HOST else f" of {shaper.endpoint}"
    return f"interface {shaper.interface}{where}, {shaper.kind}"


def unsampled_queue_drops_per_s(data: TrialData) -> float | None:
    """Return the packets per second that root qdiscs drop on interfaces without samples; None if unknown.

    A root includes the drops of what is below it.
    """
    drops = sum_known_values(
        *(
            _root_drops(qdiscs_on_path(data, endpoint), data.sampled_interfaces[endpoint.name])
            for endpoint in endpoints_on_path(data.steady_part)
            if endpoint.name in data.sampled_interfaces
            and isinstance(path_state(endpoint).get("qdiscs"), list)
        )
    )
    return ratio(drops, data.steady_part.trial.duration_s)


def unsampled_shaper_busy_share(data: TrialData) -> float:
    """Return the share of the time in which the busiest shaper without samples sends, 0 to 1.

    A link that delays packets always has some to send, so it sends for that share of its rate. A shaper that
    delays few of its packets only smooths bursts: it has some to send for that smaller share.
    """
    shares = []
    for shaper in _shapers(data):
        if shaper.delay_count and shaper.interface not in data.sampled_interfaces.get(shaper.endpoint, ()):
            delays_per_packet = ratio(
                shaper.delay_count * _segments_in_largest_possible_packet(data),
                shaper.sent_segment_count,
            )
            delayed_share = 1.0 if delays_per_packet is None else min(1.0, delays_per_packet)
            shares.append(delayed_share * shaper.rate_share_percent / 100)
    return max(shares, default=0.0)


def endpoints_on_path(part: SteadyPart) -> list[EndpointRecord]:
    """Return the endpoints and observers whose network namespace carries the load.

    That of the bench's machine does only if the observer watches interfaces there.
    """
    watches_interfaces = any(x.observation and x.observation.interface_counters for x in part.host_samples)
    return [each for each in part.trial.endpoints if each.name != HOST or watches_interfaces]


def path_state(endpoint: EndpointRecord) -> Mapping[str, Any]:
    """Return the state of an endpoint's network namespace (docs/protocol.md); empty if it is unknown."""
    return mapping_or_empty(endpoint.totals.get("path_state"))


def _busiest_shaper(data: TrialData) -> Shaper | None:
    """Return the shaper whose traffic is closest to its rate; None without a shaper."""
    return max(_shapers(data), key=lambda shaper: shaper.rate_share_percent, default=None)


def _shapers(data: TrialData) -> Iterator[Shaper]:
    part = data.steady_part
    for endpoint in endpoints_on_path(part):
        for qdisc in qdiscs_on_path(data, endpoint):
            # An idle phase before the load sends next to nothing.
            sent_bits = 8 * (to_number(qdisc.get("sent_bytes")) or 0.0)
            capacity_bits = (to_number(qdisc.get("rate_bps")) or 0.0) * part.trial.duration_s
            share = percent_at_most_100(sent_bits, capacity_bits)
            if share is not None and not qdisc.get("is_gone"):
                yield Shaper(
                    endpoint.name,
                    str(qdisc.get("interface", "")),
                    str(qdisc.get("kind", "")),
                    share,
                    to_number(qdisc.get("overlimits")) or 0.0,
                    to_number(qdisc.get("drops")) or 0.0,
                    to_number(qdisc.get("sent_packets")),
                )


def _segments_per_packet(data: TrialData) -> float | None:
    """Return the mean number of TCP segments in the packets that a shaper gets; None if no counter shows it.

    A queueing discipline delays whole packets, but the kernel counts what it sent in segments (bstats_update,
    include/net/sch_generic.h). An adapter that divides large packets may count the parts. So one segment per
    counted packet shows their size only if there are no large packets, or if the interface does not divide
    them.
    """
    segments = sum_known_values(*(flow.total("segments_out") for flow in data.tcp_senders))
    if segments is None:
        return 1.0
    senders = data.steady_part.senders
    packets = sum_known_values(*(total_of_counter(samples, "tx_packets") for _, samples in senders))
    counted = max(1.0, ratio(segments, packets) or 1.0)
    if counted >= _MIN_SEGMENTS_PER_LARGE_PACKET or all(
        interface_counts_unsegmented_packets(data, endpoint) for endpoint, _ in senders
    ):
        return counted
    sent_bytes = sum(sample.bytes for flow in data.tcp_senders for sample in flow.samples)
    largest_bytes = smallest(flow.mss_bytes for flow in data.tcp_senders)
    bytes_per_segment = ratio(sent_bytes, segments)
    # A large packet has full segments. Where most segments are not full, there are none.
    if (
        largest_bytes
        and bytes_per_segment
        and bytes_per_segment < largest_bytes / _MIN_SEGMENTS_PER_LARGE_PACKET
    ):
        return counted
    return None


def interface_counts_unsegmented_packets(data: TrialData, endpoint: EndpointRecord) -> bool:
    """Return whether the counter of a sender's interface shows how large the packets were before it."""
    trial, name = data.steady_part.trial, data.interface_by_endpoint.get(endpoint.name)
    if effective_knob_value(trial, "gso", endpoint.name) is False:
        return True
    is_virtual_link = any(each.name == name and each.kind == "veth" for each in list_interfaces(endpoint))
    return is_virtual_link and effective_knob_value(trial, "tso", endpoint.name) is True


def _segments_in_largest_possible_packet(data: TrialData) -> float:
    """Return the segments in the largest possible packet."""
    mss_bytes = smallest(flow.mss_bytes for flow in data.tcp_senders)
    return LARGEST_PACKET_BYTES / mss_bytes if mss_bytes else LARGEST_PACKET_BYTES / _USUAL_MSS_BYTES


def _root_drops(qdiscs: list[Mapping[str, Any]], sampled: frozenset[str]) -> float:
    return sum(
        to_number(each.get("drops")) or 0.0
        for each in qdiscs
        if each.get("parent") == _ROOT
        and not str(each.get("kind", "")).endswith(" class")
        and str(each.get("interface")) not in sampled
    )


def qdiscs_on_path(data: TrialData, endpoint: EndpointRecord) -> list[Mapping[str, Any]]:
    """Return the queueing disciplines on the path: on a machine of others, not those of other interfaces."""
    listed = path_state(endpoint).get("qdiscs")
    qdiscs = [mapping_or_empty(each) for each in listed] if isinstance(listed, list) else []
    on_path = path_interfaces_or_none_for_all(data, endpoint)
    return qdiscs if on_path is None else [each for each in qdiscs if each.get("interface") in on_path]


def path_interfaces_or_none_for_all(data: TrialData, endpoint: EndpointRecord) -> frozenset[str] | None:
    """Return the interfaces of a machine of others that are on the path.

    None if all of them count: the namespace or guest is the testbed's own, or the machine does not show them.
    """
    start = data.interface_by_endpoint.get(endpoint.name)
    if not data.has_endpoints_with_other_interfaces or start is None:
        return None
    return interfaces_on_path(list_interfaces(endpoint), start)
