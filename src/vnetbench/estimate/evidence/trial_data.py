"""What a trial's figures are made of: its steady part, with streams, kernels and interfaces told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.estimate.evidence.flows import Flow, collect_flows, load_flows
from vnetbench.estimate.evidence.kernels import Kernel, collect_kernels
from vnetbench.estimate.evidence.ports import Port, collect_ports
from vnetbench.estimate.frame_losses import FrameLosses, locate_frame_losses
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import TimeSeries


@dataclass(frozen=True)
class TrialData:
    """One trial."""

    steady_part: SteadyPart
    metrics: Mapping[str, float]
    """The trial's own: some of them are evidence too."""
    time_series: Sequence[float]
    """Its deciding metric in each interval of the steady part."""
    flows: Sequence[Flow]
    """Both ends of all streams."""
    sending_flows: Sequence[Flow]
    """The ends that send, or ask; beside transfers requests do not count, as they are none of the load."""
    tcp_senders: Sequence[Flow]
    """Those of them that are connections of TCP."""
    tcp_receivers: Sequence[Flow]
    """Their other ends."""
    kernels: Sequence[Kernel]
    ports: Sequence[Port]
    frame_losses: FrameLosses | None
    """Where frames were lost; None without frames."""


def build_trial_data(
    part: SteadyPart, metrics: Mapping[str, float], course: TimeSeries, testbed: Mapping[str, Any]
) -> TrialData:
    """The case of a trial: `course` is that of its deciding metric, `testbed` what the file tells of it."""
    flows = collect_flows(part)
    sending = load_flows(flows, "source")
    return TrialData(
        part,
        metrics,
        course.values[part.warmup_samples :],
        flows,
        sending,
        [flow for flow in sending if flow.is_tcp],
        [flow for flow in load_flows(flows, "sink") if flow.is_tcp],
        collect_kernels(part),
        collect_ports(part, testbed),
        locate_frame_losses(part.trial, testbed),
    )
