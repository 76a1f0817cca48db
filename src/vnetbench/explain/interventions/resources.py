"""Resources that interventions change, the uses of time that depend on them, and the causes they decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vnetbench.estimate.evidence.time_accounting.time_uses import RECEIVER, SENDER

_CPU_TIME_USES = ("running", "load", "programs", "packets", "quota", "hypervisor")
_SENDER_CPU_TIME_USES = tuple(f"{SENDER}_{use}" for use in _CPU_TIME_USES)
_RECEIVER_CPU_TIME_USES = tuple(f"{RECEIVER}_{use}" for use in _CPU_TIME_USES)
_RUNNING_USES = (f"{SENDER}_running", f"{RECEIVER}_running")
_PACKET_USES = (f"{SENDER}_packets", f"{RECEIVER}_packets", "packet_processing", "virtual_switch")
_CPU_CAUSES = ("cpus_full", "other_programs", "shared_with_packets", "shared_by_vms", "steal", "cpu_quota")
"""Causes for which the CPU time of the sender, of the receiver or of both is scarce."""
_WAITING_USES = ("receive_window", "send_buffer", "queueing", "round_trip")


@dataclass(frozen=True)
class Resource:
    """A resource of the traffic, or a setting that an intervention switches."""

    name: str
    label: str
    """A noun phrase inside a sentence: "CPU time of the sender"."""
    time_uses: tuple[str, ...] = ()
    """Uses of time (`time_accounting.TIME_USE_BY_NAME`) that shrink if there is more of the resource."""
    causes: tuple[str, ...] = ()
    """Causes for which this resource limits, or another one with the same cause; the general one first."""


RESOURCES: Mapping[str, Resource] = {
    each.name: each
    for each in (
        Resource(
            "sender_cpu_time", "CPU time of the sender", _SENDER_CPU_TIME_USES, ("sender_cpu", *_CPU_CAUSES)
        ),
        Resource(
            "receiver_cpu_time",
            "CPU time of the receiver",
            _RECEIVER_CPU_TIME_USES,
            ("receiver_cpu", *_CPU_CAUSES),
        ),
        Resource("vm_cpu_time", "CPU time of each VM", (*_SENDER_CPU_TIME_USES, *_RECEIVER_CPU_TIME_USES)),
        Resource("vm_quota", "CPU quota of each VM", ("sender_quota", "receiver_quota"), ("cpu_quota",)),
        Resource("link_rate", "link rate", ("link_queue", "queueing"), ("link_full",)),
        Resource("streams", "number of streams", (*_WAITING_USES, "loss_recovery", *_RUNNING_USES)),
        Resource("connections", "number of connections", (*_WAITING_USES, "loss_recovery", *_RUNNING_USES)),
        Resource("message_size", "message size", _RUNNING_USES, ("small_messages",)),
        Resource("request_size", "inverse of the request size", _RUNNING_USES),
        Resource("response_size", "inverse of the response size", _RUNNING_USES),
        Resource("datagram_size", "inverse of the datagram size", (*_RUNNING_USES, *_PACKET_USES)),
        Resource("socket_buffer", "socket buffer", _WAITING_USES, ("send_buffer", "receive_window")),
        Resource("pacing_rate", "pacing rate", ("pacing",), ("pacing",)),
        Resource("rate", "offered load", ("load_pause",)),
        Resource("bit_rate", "offered load", ("load_pause",)),
        Resource("link_delay", "inverse of the link delay", _WAITING_USES),
        Resource("mtu", "MTU", (*_RUNNING_USES, *_PACKET_USES), ("small_mtu",)),
        Resource("segmentation", "segmentation offload", (*_RUNNING_USES, *_PACKET_USES)),
        Resource("aggregation", "receive offload", (*_RUNNING_USES, *_PACKET_USES)),
        Resource("packet_processing", "placement of packet processing", _PACKET_USES),
        Resource(
            "placement", "placement of the VMs", tuple(f"{part}_{use}" for part in (SENDER, RECEIVER)
            for use in ("load", "programs", "packets")),
        ),
        Resource("congestion_control", "congestion control", ("loss_recovery", "queueing")),
        Resource("load_below_limit", "load below the limit", ("loss_recovery", "queueing")),
    )
}  # fmt: skip
"""All resources by name. Proof files store the name."""


def time_share_of(resource: Resource, time_shares: Mapping[str, float]) -> float:
    """Return the share of the time that depends on a resource, 0 to 1; 1 without a time accounting.

    More of a resource saves at most the time that depends on it. So no elasticity is above this share.
    """
    if not time_shares:
        return 1.0
    return min(1.0, sum(time_shares.get(use, 0.0) for use in resource.time_uses))
