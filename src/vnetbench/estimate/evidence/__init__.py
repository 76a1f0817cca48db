"""Evidence: metrics of a trial that distinguish causes, calculated from its counters."""

from __future__ import annotations

from collections.abc import Mapping

from vnetbench.estimate.evidence.calls import CALL_EVIDENCE_METRICS, send_call_and_request_evidence
from vnetbench.estimate.evidence.cpu import CPU_EVIDENCE_METRICS, cpu_evidence
from vnetbench.estimate.evidence.cpu_sets import CPU_SET_EVIDENCE_METRICS, cpu_set_evidence
from vnetbench.estimate.evidence.duplicates import DUPLICATE_EVIDENCE_METRICS, duplicate_evidence
from vnetbench.estimate.evidence.foreign_packets import (
    FOREIGN_PACKET_EVIDENCE_METRICS,
    foreign_packet_evidence,
)
from vnetbench.estimate.evidence.frames import FRAME_EVIDENCE_METRICS, frame_evidence
from vnetbench.estimate.evidence.instrument import INSTRUMENT_EVIDENCE_METRICS, instrument_evidence
from vnetbench.estimate.evidence.interrupt_work import (
    INTERRUPT_WORK_EVIDENCE_METRICS,
    interrupt_work_evidence,
)
from vnetbench.estimate.evidence.links import LINK_EVIDENCE_METRICS, link_evidence
from vnetbench.estimate.evidence.metric import EvidenceMetric
from vnetbench.estimate.evidence.packet_work import PACKET_WORK_EVIDENCE_METRICS, packet_work_evidence
from vnetbench.estimate.evidence.packets import PACKET_EVIDENCE_METRICS, packet_evidence
from vnetbench.estimate.evidence.path_state import (
    PATH_STATE_EVIDENCE_METRICS,
    PROGRAM_EVIDENCE_METRICS,
    path_state_evidence,
)
from vnetbench.estimate.evidence.placement import PLACEMENT_EVIDENCE_METRICS, placement_evidence
from vnetbench.estimate.evidence.queue_directions import (
    QUEUE_DIRECTION_EVIDENCE_METRICS,
    queue_direction_evidence,
)
from vnetbench.estimate.evidence.rate_limits import RATE_LIMIT_EVIDENCE_METRICS, rate_limit_evidence
from vnetbench.estimate.evidence.receive_windows import (
    RECEIVE_WINDOW_EVIDENCE_METRICS,
    receive_window_evidence,
)
from vnetbench.estimate.evidence.segment_losses import (
    SEGMENT_LOSS_EVIDENCE_METRICS,
    segment_loss_evidence,
)
from vnetbench.estimate.evidence.shapers import SHAPER_EVIDENCE_METRICS, shaper_evidence
from vnetbench.estimate.evidence.stalls import STALL_EVIDENCE_METRICS, stall_evidence
from vnetbench.estimate.evidence.teams import TEAM_EVIDENCE_METRICS, team_evidence
from vnetbench.estimate.evidence.time_accounting.metrics import TIME_EVIDENCE_METRICS, time_evidence
from vnetbench.estimate.evidence.trial_data import TrialData
from vnetbench.estimate.evidence.window import WINDOW_EVIDENCE_METRICS, window_evidence

METRICS_BY_FAMILY: Mapping[str, tuple[EvidenceMetric, ...]] = {
    "time": TIME_EVIDENCE_METRICS,
    "cpu": (*CPU_EVIDENCE_METRICS, *CPU_SET_EVIDENCE_METRICS, *PROGRAM_EVIDENCE_METRICS),
    "window": (
        *WINDOW_EVIDENCE_METRICS,
        *RECEIVE_WINDOW_EVIDENCE_METRICS,
        *CALL_EVIDENCE_METRICS,
        *STALL_EVIDENCE_METRICS,
    ),
    "packets": (
        *PACKET_EVIDENCE_METRICS,
        *PACKET_WORK_EVIDENCE_METRICS,
        *INTERRUPT_WORK_EVIDENCE_METRICS,
        *FOREIGN_PACKET_EVIDENCE_METRICS,
    ),
    "links": (
        *LINK_EVIDENCE_METRICS,
        *DUPLICATE_EVIDENCE_METRICS,
        *SEGMENT_LOSS_EVIDENCE_METRICS,
        *QUEUE_DIRECTION_EVIDENCE_METRICS,
        *PATH_STATE_EVIDENCE_METRICS,
        *SHAPER_EVIDENCE_METRICS,
        *RATE_LIMIT_EVIDENCE_METRICS,
    ),
    "teams": TEAM_EVIDENCE_METRICS,
    "frames": FRAME_EVIDENCE_METRICS,
    "placement": PLACEMENT_EVIDENCE_METRICS,
    "instrument": INSTRUMENT_EVIDENCE_METRICS,
}
EVIDENCE_METRICS: dict[str, EvidenceMetric] = {
    metric.name: metric for family in METRICS_BY_FAMILY.values() for metric in family
}


def collect_evidence(data: TrialData) -> dict[str, float]:
    """Return all evidence metrics of a trial whose counters are known."""
    time, path_state = time_evidence(data), path_state_evidence(data)
    window, packets = window_evidence(data), packet_evidence(data)
    calls = send_call_and_request_evidence(data)
    values = {
        **time,
        **cpu_evidence(data),
        **cpu_set_evidence(data),
        **window,
        **receive_window_evidence(window),
        **calls,
        **packets,
        **link_evidence(data),
        **duplicate_evidence(data),
        **segment_loss_evidence(data),
        **queue_direction_evidence(data),
        **shaper_evidence(data),
        **rate_limit_evidence(data),
        **stall_evidence(data),
        **path_state,
        **packet_work_evidence(data, {**time, **path_state, **window, **calls, **packets}),
        **interrupt_work_evidence(data),
        **foreign_packet_evidence(data),
        **team_evidence(data),
        **frame_evidence(data),
        **placement_evidence(data),
        **instrument_evidence(data),
    }
    return {name: float(value) for name, value in values.items() if value is not None}
