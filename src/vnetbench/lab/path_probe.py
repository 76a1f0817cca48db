"""Proves before each load that a path passes unfragmented packets of the full MTU in both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.errors import BenchError
from vnetbench.failure_kinds import MTU_BLACK_HOLE, PATH_BLOCKED, PATH_PROBE_RESULT_KEY
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netlink import interface_mtu
from vnetbench.lab.netns.topology import NetDevice
from vnetbench.study.factors.frame_factors import FRAME_SIZE, compute_largest_packet_bytes
from vnetbench.study.model import Level

PACKETS_PER_PROOF_ROUND = 3
ATTEMPT_TIMEOUT_S = 0.3
PATH_MTU_KEY = "path_mtu_proved"
"""Key of the proved packet size in the effective settings of a trial."""
SMALL_PACKET_BYTES = 128
"""Size of the small packets. If they pass and larger ones do not, an MTU on the path is too small."""
MAX_PROOF_ROUNDS = 3
"""2.7 s of packets in total: the kernel repeats a lost neighbour request after 1 s."""
UDP, TCP = "udp", "tcp"
"""Transports of probes: datagrams, or the segments of a connection."""
PROBE_PROTOCOL_KEY = "protocol"
"""Key in the result of a probe, if it used a connection."""


@dataclass(frozen=True)
class Hop:
    """One interface on a path."""

    display_name: str
    read_mtu: Callable[[], int]
    """Reads the interface's MTU; raises BenchError if the interface does not exist."""


def namespace_hop(device: NetDevice) -> Hop:
    """Return the hop of an interface in a namespace of this machine."""
    return Hop(device.display_name, lambda: interface_mtu(device.namespace, device.interface))


def prove_paths(
    pairs: Sequence[tuple[Endpoint, Endpoint]],
    agents: Mapping[str, AgentClient],
    mtu: int,
    ip_version: str,
    hops: Callable[[int], Sequence[Hop]],
    max_rounds: int = MAX_PROOF_ROUNDS,
    link_delay_s: float = 0.0,
) -> list[dict[str, Any]]:
    """Prove for every pair that packets of `mtu` bytes pass in both directions unfragmented.

    Args:
        pairs: Both endpoints of each pair.
        agents: The endpoints' agents.
        mtu: Packet size in bytes.
        ip_version: A level of the factor `ip_version`.
        hops: Returns the hops of a pair (numbered from 1), from a to b.
        max_rounds: Maximum number of attempts for all pairs.
        link_delay_s: Delay that the link adds in each direction.

    Returns:
        The agent's answer for each pair.

    Raises:
        TreatmentRefused: with the hop that stops the packets, and the fix.
    """
    timeout_s = ATTEMPT_TIMEOUT_S + 2 * link_delay_s
    replies = probe_paths(pairs, agents, mtu, ip_version, timeout_s)
    for _ in range(max_rounds - 1):
        if all(map(has_passed_both_ways, replies)):
            break
        replies = probe_paths(pairs, agents, mtu, ip_version, timeout_s)
    for number, ((a, b), reply) in enumerate(zip(pairs, replies, strict=True), start=1):
        if not has_passed_both_ways(reply):
            refusal = _path_refusal(hops(number), f"{a.name} to {b.name}", mtu, reply)
            probe = probe_small_and_large_packets([(a, b)], agents, mtu, ip_version, link_delay_s)
            refusal.kind = MTU_BLACK_HOLE if probe["small_passed"] else PATH_BLOCKED
            refusal.evidence[PATH_PROBE_RESULT_KEY] = probe
            raise refusal
    return replies


def probe_small_and_large_packets(
    pairs: Sequence[tuple[Endpoint, Endpoint]],
    agents: Mapping[str, AgentClient],
    mtu: int,
    ip_version: str,
    link_delay_s: float = 0.0,
    protocol: str = UDP,
) -> dict[str, Any]:
    """Return whether small packets and packets of `mtu` bytes pass now in both directions of all pairs."""
    timeout_s = ATTEMPT_TIMEOUT_S + 2 * link_delay_s
    small, large = (
        all(map(has_passed_both_ways, probe_paths(pairs, agents, size, ip_version, timeout_s, protocol)))
        for size in (SMALL_PACKET_BYTES, mtu)
    )
    return {
        **({PROBE_PROTOCOL_KEY: TCP} if protocol == TCP else {}),
        "small_bytes": SMALL_PACKET_BYTES,
        "small_passed": small,
        "large_bytes": mtu,
        "large_passed": large,
    }


def probe_paths(
    pairs: Sequence[tuple[Endpoint, Endpoint]],
    agents: Mapping[str, AgentClient],
    packet_bytes: int,
    ip_version: str,
    timeout_s: float = ATTEMPT_TIMEOUT_S,
    protocol: str = UDP,
) -> list[dict[str, Any]]:
    """Send packets of this size in both directions of each pair and return the answers (`path.probe`)."""
    listening = [
        (
            b,
            agents[b.name].send("path.listen", address=b.address_for(ip_version), protocol=protocol),
        )
        for _, b in pairs
    ]
    paths = [agents[b.name].wait(future, "path.listen") for b, future in listening]
    try:
        probes = [
            agents[a.name].send(
                "path.probe",
                **{"from": a.address_for(ip_version)},
                to=b.address_for(ip_version),
                port=path["port"],
                packet_bytes=packet_bytes,
                attempts=PACKETS_PER_PROOF_ROUND,
                timeout_s=timeout_s,
                protocol=protocol,
            )
            for (a, b), path in zip(pairs, paths, strict=True)
        ]
        return [
            agents[a.name].wait(future, "path.probe") for (a, _), future in zip(pairs, probes, strict=True)
        ]
    finally:
        for (_, b), path in zip(pairs, paths, strict=True):
            agents[b.name].send("path.close", path=path["path"])


def has_passed_both_ways(reply: Mapping[str, Any]) -> bool:
    """Whether packets passed in both directions."""
    return bool(reply["forward"] and reply["reverse"])


def check_frame_size(factors: Mapping[str, Level], mtu: int, where: str) -> None:
    """Raise TreatmentRefused if a treatment's largest frame exceeds the path's proved MTU."""
    if FRAME_SIZE.is_present_in(factors) and (needed := compute_largest_packet_bytes(factors)) > mtu:
        raise TreatmentRefused(
            f"{FRAME_SIZE.format_as_assignment(factors[FRAME_SIZE.name])}: "
            f"a packet of {needed} bytes does not fit an MTU of {mtu}",
            where=where,
            fix=f"raise the MTU at this point of the path to {needed}, or choose a smaller {FRAME_SIZE.name}",
        )


def stored_path_proof_values(mtu: int, replies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the proof as a trial stores it."""
    return {PATH_MTU_KEY: mtu, "path_rtt_us": [reply.get("rtt_us") for reply in replies]}


def _path_refusal(hops: Sequence[Hop], route: str, mtu: int, reply: Mapping[str, Any]) -> TreatmentRefused:
    direction = "in either direction" if not reply["forward"] else "in the reverse direction"
    what = (
        f"packets of {mtu} bytes do not pass from {route} unfragmented {direction} "
        f"({reply['reason'] or 'lost'})"
    )
    narrow = []
    for hop in hops:
        try:
            replies = hop.read_mtu()
        except BenchError:
            return TreatmentRefused(
                f"{what}: an interface does not exist", where=hop.display_name, fix="run vnetbench lab clean"
            )
        if replies < mtu:
            narrow.append((hop, replies))
    if not narrow:
        return TreatmentRefused(
            f"{what}, although every hop has an MTU of {mtu} or more",
            where=" > ".join(hop.display_name for hop in hops),
            fix="look for a filter or an interface that is down on the path (vnetbench lab exec)",
        )
    where = "; ".join(f"{hop.display_name} has MTU {replies}" for hop, replies in narrow)
    return TreatmentRefused(
        f"{what}: {where}",
        where=narrow[0][0].display_name,
        fix=f"raise the MTU at this point of the path to {mtu}. For a vSwitch, write testbed.vswitch_mtu = "
        f"{mtu}, or leave out vswitch_mtu",
    )
