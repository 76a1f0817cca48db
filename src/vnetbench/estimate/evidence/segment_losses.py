"""Evidence of lost segments: acknowledgements that do not arrive, and drops in the receiver's TCP."""

from __future__ import annotations

from collections.abc import Sequence

from vnetbench.estimate.evidence.aggregation import (
    EvidenceValues,
    counter_rate_per_s,
    percent,
    sum_known_values,
)
from vnetbench.estimate.evidence.flows import Flow
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData

SEGMENT_LOSS_EVIDENCE_METRICS = (
    EvidenceMetric(
        "tcp_receive_drops_per_s",
        "1/s",
        "segments that the receiver's TCP drops",
        "arrived segments that the receivers' TCP drops, or discards again, per second. Its memory or its "
        "socket is full",
        ("tcp_rcv_pruned", "tcp_backlog_drop"),
    ),
    EvidenceMetric(
        "ack_loss_percent",
        "% of segments",
        "lost acknowledgements",
        "share of the segments sent by the receivers that do not arrive at the senders. Nearly all are "
        "acknowledgements. TCP tolerates many such losses, because each later acknowledgement covers the "
        "earlier ones",
        ("segments_in", "segments_out"),
    ),
)


def segment_loss_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of SEGMENT_LOSS_EVIDENCE_METRICS."""
    return {
        "tcp_receive_drops_per_s": sum_known_values(
            *(
                counter_rate_per_s(samples, "tcp_rcv_pruned", "tcp_backlog_drop")
                for _, samples in data.steady_part.receivers
            )
        ),
        "ack_loss_percent": _ack_loss_percent(data.tcp_senders, data.tcp_receivers),
    }


def _ack_loss_percent(senders: Sequence[Flow], receivers: Sequence[Flow]) -> float | None:
    """Return the share of acknowledgements that did not arrive; None unless both ends count them.

    Receive aggregation (GRO) joins no acknowledgements, so each is counted at both ends. Of data segments,
    some kernels count an aggregated packet as one.
    """
    sent = [flow.total("segments_out") for flow in receivers]
    arrived = [flow.total("segments_in") for flow in senders]
    if len(sent) != len(arrived) or None in sent or None in arrived:
        return None
    # The samples of both ends do not end at the same time, so that more may have arrived than were sent.
    sent_count, arrived_count = (sum(each or 0.0 for each in counts) for counts in (sent, arrived))
    return percent(max(0.0, sent_count - arrived_count), sent_count)
