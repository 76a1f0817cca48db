"""Evidence of receive windows that are small for the receive buffer."""

from __future__ import annotations

from vnetbench.estimate.evidence.aggregation import EvidenceValues, percent
from vnetbench.estimate.evidence.metric import EvidenceMetric

RECEIVE_WINDOW_EVIDENCE_METRICS = (
    EvidenceMetric(
        "window_share_of_receive_buffer_percent",
        "% of the buffer",
        "receiver's window for its buffer",
        "median window that the receivers advertise, divided by their median receive buffer. It is about "
        "50 % or more, unless something clamps the window",
        ("snd_wnd_bytes", "rcvbuf_bytes"),
    ),
)


def receive_window_evidence(known: EvidenceValues) -> EvidenceValues:
    """Return the values of RECEIVE_WINDOW_EVIDENCE_METRICS.

    Args:
        known: Values of WINDOW_EVIDENCE_METRICS.
    """
    window_bytes, buffer_bytes = known.get("peer_window_bytes"), known.get("receive_buffer_bytes")
    return {"window_share_of_receive_buffer_percent": percent(window_bytes, buffer_bytes)}
