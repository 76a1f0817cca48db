"""Metrics of the workloads `disruption` and `tcp_disruption`: names, units, labels and meanings."""

from __future__ import annotations

from vnetbench.estimate.metric import Metric

DISRUPTION_METRICS = (
    Metric(
        "outage_s",
        "s",
        "Outage",
        "lower",
        "longest time without an arriving datagram that the event made, by the receiving kernel's clock, of "
        "the stream with the longest. It exceeds the true outage by up to one spacing of the datagrams. The "
        "longest gap without an event is its floor",
    ),
    Metric(
        "outage_shortest_s",
        "s",
        "Shortest outage of a stream",
        "lower",
        "the same of the stream with the shortest. Only with several streams",
    ),
    Metric(
        "stall_s",
        "s",
        "Stall",
        "lower",
        "longest time in which a TCP stream delivered no message to its sink because of the event, of the "
        "stream with the longest. It includes the outage of the network and TCP's wait until it retransmits",
    ),
    Metric(
        "stall_shortest_s",
        "s",
        "Shortest stall of a stream",
        "lower",
        "the same of the stream with the shortest. Only with several streams",
    ),
    Metric(
        "event_s",
        "s",
        "Event",
        "neither",
        "measured length of the event, from the end of the system calls that began it to the begin of those "
        "that ended it. A busy machine ends an event late, and the outage is then longer for this reason",
    ),
    Metric(
        "outage_by_numbers_s",
        "s",
        "Outage by sequence numbers",
        "lower",
        "the same gap by another measure: the datagrams missing in it, and one, times their spacing. Only if "
        "datagrams were lost, and if the source sent at its rate meanwhile",
    ),
    Metric(
        "background_gap_s",
        "s",
        "Longest gap without event",
        "lower",
        "longest time without an arriving datagram or message that is far from the event, and in which the "
        "source did not pause. Shorter outages cannot be distinguished from it",
    ),
    Metric(
        "recovery_s",
        "s",
        "Recovery",
        "lower",
        "time from the begin of the event until the rate of arrivals is back at 90 % of its old value, of "
        "the slowest stream",
    ),
    Metric(
        "outage_lost_datagrams",
        "1",
        "Datagrams lost in the outage",
        "lower",
        "datagrams lost in the samples that the outage touches, sum of all streams",
    ),
    Metric(
        "outage_duplicated_datagrams",
        "1",
        "Duplicates in the outage",
        "lower",
        "additional copies of datagrams in the samples that the outage touches, sum of all streams",
    ),
    Metric(
        "outage_reordered_datagrams",
        "1",
        "Reordered in the outage",
        "lower",
        "datagrams that arrived after a later one in the samples that the outage touches, sum of all streams",
    ),
    Metric(
        "migration_s",
        "s",
        "Migration",
        "lower",
        "time that a live migration took, as the QEMU that the guest left reports it (total-time)",
    ),
    Metric(
        "migration_downtime_s",
        "s",
        "Downtime by QEMU",
        "lower",
        "time that a guest stood still in a live migration, as the QEMU that it left reports it. It does not "
        "include the time until the guest runs in the other one, nor that until its packets find it",
    ),
    Metric(
        "migration_transferred_bytes",
        "B",
        "Migration data",
        "lower",
        "data that a live migration sent: the guest's memory, without the pages that are zero, and its state",
    ),
    Metric(
        "stall_timeouts",
        "1",
        "Timeouts in the stall",
        "lower",
        "retransmission timeouts in the samples that the stall touches, sum of all streams",
    ),
    Metric(
        "stall_retransmits",
        "1",
        "Retransmissions in the stall",
        "lower",
        "segments retransmitted in the samples that the stall touches, sum of all streams",
    ),
)
