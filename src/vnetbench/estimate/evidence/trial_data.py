"""The data of a trial that evidence metrics use: its steady part by streams, kernels and interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vnetbench.estimate.evidence.flows import Flow, collect_flows, select_load_flows
from vnetbench.estimate.evidence.kernels import ObservedKernel, collect_kernels
from vnetbench.estimate.evidence.ports import Port, collect_ports, sampled_interfaces_by_endpoint
from vnetbench.estimate.frame_losses import FrameLosses, locate_frame_losses
from vnetbench.estimate.steady_state import SteadyPart
from vnetbench.estimate.time_series import TimeSeries
from vnetbench.study.labs import EXISTING_MACHINE_LABS


@dataclass(frozen=True)
class TrialData:
    """The data of one trial."""

    steady_part: SteadyPart
    metrics: Mapping[str, float]
    """The trial's metrics. Some of them are also evidence."""
    steady_deciding_series: Sequence[float]
    """The deciding metric in each interval of the steady part."""
    flows: Sequence[Flow]
    """Both ends of all streams."""
    sending_flows: Sequence[Flow]
    """The ends that send data or requests. With `mixed`, requests are not part of the load."""
    tcp_senders: Sequence[Flow]
    """The sending flows that are TCP connections."""
    tcp_receivers: Sequence[Flow]
    """The receiving ends of TCP connections."""
    kernels: Sequence[ObservedKernel]
    ports: Sequence[Port]
    sampled_interfaces: Mapping[str, frozenset[str]]
    """The interfaces whose queues are in the samples, by the endpoint or observer that reads them."""
    frame_losses: FrameLosses | None
    """Where frames were lost; None without frames."""
    switch_packet_sockets: int = 0
    """Packet sockets of the testbed's own virtual switch."""
    interface_by_endpoint: Mapping[str, str] = field(default_factory=dict)
    """The interface of each endpoint that carries the load, where it is known."""
    has_endpoints_with_other_interfaces: bool = False
    """Whether the endpoints are machines that also have interfaces which are not the testbed's."""


def build_trial_data(
    part: SteadyPart, metrics: Mapping[str, float], time_series: TimeSeries, testbed: Mapping[str, Any]
) -> TrialData:
    """Collect the data of a trial.

    Args:
        part: The steady part of the trial.
        metrics: The trial's metrics.
        time_series: The time series of the deciding metric.
        testbed: The testbed's description in the results file.
    """
    flows = collect_flows(part)
    sending_flows = select_load_flows(flows, "source")
    return TrialData(
        part,
        metrics,
        time_series.values[part.warmup_samples :],
        flows,
        sending_flows,
        [flow for flow in sending_flows if flow.is_tcp],
        [flow for flow in select_load_flows(flows, "sink") if flow.is_tcp],
        collect_kernels(
            part, {e["name"]: str(e["kernel"]) for e in testbed.get("endpoints") or () if e.get("kernel")}
        ),
        collect_ports(part, testbed),
        sampled_interfaces_by_endpoint(part, testbed),
        locate_frame_losses(part.trial, testbed),
        _count_switch_packet_sockets(testbed),
        {e["name"]: e["interface"] for e in testbed.get("endpoints") or () if e.get("interface")},
        testbed.get("lab") in EXISTING_MACHINE_LABS,
    )


def _count_switch_packet_sockets(testbed: Mapping[str, Any]) -> int:
    """Return the packet sockets of Open vSwitch's userspace datapath: one to receive per port, one to send.

    See lib/netdev-linux.c of Open vSwitch, netdev_linux_rxq_construct and af_packet_sock. Other virtual
    switches have none.
    """
    return len(testbed.get("observed_interfaces") or ()) + 1 if testbed.get("open_vswitch") else 0
