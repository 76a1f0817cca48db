"""Evidence: metrics of a trial that distinguish causes, calculated from its counters."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.estimate.evidence.calls import CALL_METRICS, call_evidence
from vnetbench.estimate.evidence.cpu import CPU_METRICS, cpu_evidence
from vnetbench.estimate.evidence.cpu_sets import THREAD_CPU_SET_METRICS, thread_cpu_set_values
from vnetbench.estimate.evidence.frames import FRAME_EVIDENCE_METRICS, frame_evidence
from vnetbench.estimate.evidence.instrument import INSTRUMENT_METRICS, instrument_evidence
from vnetbench.estimate.evidence.links import LINK_METRICS, link_evidence
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.packets import PACKET_METRICS, packet_evidence
from vnetbench.estimate.evidence.placement import PLACEMENT_METRICS, placement_evidence
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.evidence.window import WINDOW_METRICS, window_evidence

FAMILIES: Mapping[str, tuple[EvidenceMetric, ...]] = {
    "cpu": (*CPU_METRICS, *THREAD_CPU_SET_METRICS),
    "window": (*WINDOW_METRICS, *CALL_METRICS),
    "packets": PACKET_METRICS,
    "links": LINK_METRICS,
    "frames": FRAME_EVIDENCE_METRICS,
    "placement": PLACEMENT_METRICS,
    "instrument": INSTRUMENT_METRICS,
}
EVIDENCE_METRICS: dict[str, EvidenceMetric] = {
    metric.name: metric for family in FAMILIES.values() for metric in family
}


def collect_evidence(data: TrialData) -> dict[str, float]:
    """Return all evidence metrics of a trial whose counters are known."""
    values = {
        **cpu_evidence(data),
        **thread_cpu_set_values(data),
        **window_evidence(data),
        **call_evidence(data),
        **packet_evidence(data),
        **link_evidence(data),
        **frame_evidence(data),
        **placement_evidence(data),
        **instrument_evidence(data),
    }
    return {name: float(value) for name, value in values.items() if value is not None}
