"""Evidence of the return path: acknowledgements that the receivers sent and the senders did not get."""

from __future__ import annotations

from vnetbench.estimate.evidence.aggregation import EvidenceValues, percent, sum_known_values
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.trial_data import TrialData

ACKNOWLEDGEMENT_EVIDENCE_METRICS = (
    EvidenceMetric(
        "ack_loss_percent",
        "% of segments",
        "lost acknowledgements",
        "share of the segments from the receiving to the sending ends of the streams that did not arrive. "
        "Nearly all of them are acknowledgements. TCP survives the loss of many: a later one repeats them",
        ("segments_in", "segments_out"),
    ),
)


def acknowledgement_evidence(data: TrialData) -> EvidenceValues:
    """Return the values of these metrics; empty unless both ends of all streams are known."""
    if len(data.tcp_senders) != len(data.tcp_receivers):
        return {}
    sent = [flow.total("segments_out") for flow in data.tcp_receivers]
    arrived = [flow.total("segments_in") for flow in data.tcp_senders]
    if None in sent or None in arrived:
        return {}
    sent_count, arrived_count = sum_known_values(*sent), sum_known_values(*arrived)
    if sent_count is None or arrived_count is None:
        return {}
    return {"ack_loss_percent": percent(max(0.0, sent_count - arrived_count), sent_count)}
