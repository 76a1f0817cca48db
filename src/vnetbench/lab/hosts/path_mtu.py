"""Finds the largest packet that passes between hosts, and the hop that stops larger ones."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.failure_kinds import MTU_BLACK_HOLE, PATH_BLOCKED
from vnetbench.lab import path_probe
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.testbed_factors import MIN_IPV6_MTU

MIN_IPV4_MTU = 576
"""Packet size that every IPv4 path supports (RFC 791)."""
COMMON_MTU = 1500
LINK_UP_TIMEOUT_S = 15.0
"""Time limit for an adapter to bring its link up after a knob was set."""
NEIGHBOUR_TIMEOUT_S = 2.0
"""Time limit for resolving a neighbour whose first answer was lost."""

Pair = tuple[Endpoint, Endpoint]
MtuByEndpoint = Mapping[str, int]


def prove_path_mtu(
    pairs: Sequence[Pair],
    agents: Mapping[str, AgentClient],
    mtu_by_endpoint: MtuByEndpoint,
    requested_mtu: int | None,
    ip_version: str,
    *,
    has_changed_knobs: bool,
) -> dict[str, Any]:
    """Prove the paths of all pairs in both directions.

    Args:
        pairs: Both endpoints of each pair.
        agents: The endpoints' agents.
        mtu_by_endpoint: The MTU of each endpoint's interface.
        requested_mtu: Packet size to prove; None for the largest that passes.
        ip_version: A level of the factor `ip_version`.
        has_changed_knobs: Whether knobs were just set, so that links may still be down.

    Returns:
        The proved packet size and the round trips, as a trial stores them.

    Raises:
        TreatmentRefused: with the hop that stops the packets, and the fix.
    """
    min_mtu = MIN_IPV6_MTU if ip_version == "6" else MIN_IPV4_MTU
    _wait_for_connectivity(
        pairs, agents, min_mtu, ip_version, LINK_UP_TIMEOUT_S if has_changed_knobs else NEIGHBOUR_TIMEOUT_S
    )
    packet_bytes = requested_mtu or min(mtu_by_endpoint.values())
    replies = path_probe.probe_paths(pairs, agents, packet_bytes, ip_version)
    failed_pairs = [
        pair for pair, reply in zip(pairs, replies, strict=True) if not path_probe.has_passed_both_ways(reply)
    ]
    if failed_pairs:
        largest_passing = min(
            _find_path_mtu(pair, agents, min_mtu, packet_bytes, ip_version) for pair in failed_pairs
        )
        if requested_mtu is not None:
            raise _mtu_refusal(failed_pairs[0], packet_bytes, largest_passing, mtu_by_endpoint)
        packet_bytes = largest_passing
    return {"path_mtu_proved": packet_bytes, "path_rtt_us": [reply.get("rtt_us") for reply in replies]}


def _wait_for_connectivity(
    pairs: Sequence[Pair],
    agents: Mapping[str, AgentClient],
    packet_bytes: int,
    ip_version: str,
    timeout_s: float,
) -> None:
    """Wait until small packets pass; raises TreatmentRefused if they do not."""
    deadline = time.monotonic() + timeout_s
    while True:
        replies = path_probe.probe_paths(pairs, agents, packet_bytes, ip_version)
        failed = [
            (p, reply)
            for p, reply in zip(pairs, replies, strict=True)
            if not path_probe.has_passed_both_ways(reply)
        ]
        if not failed:
            return
        if time.monotonic() >= deadline:
            break
    (a, b), reply = failed[0]
    raise TreatmentRefused(
        f"not even packets of {packet_bytes} bytes pass from {a.name} ({a.address_for(ip_version)}) to "
        f"{b.name} ({b.address_for(ip_version)}) and back: {reply['reason'] or 'lost'}",
        where=f"{a.name} {a.interface} > {b.name} {b.interface}",
        fix="check that both interfaces are up and in the same network, and that every firewall on the path "
        "passes TCP and UDP on the ports of testbed.ports",
        kind=PATH_BLOCKED,
    )


def _find_path_mtu(
    pair: Pair, agents: Mapping[str, AgentClient], passing_bytes: int, blocked_bytes: int, ip_version: str
) -> int:
    """Return the largest packet that passes, by bisection between `passing_bytes` and `blocked_bytes`."""
    guesses = [COMMON_MTU + 1, COMMON_MTU]
    while blocked_bytes - passing_bytes > 1:
        middle = guesses.pop() if guesses else (passing_bytes + blocked_bytes) // 2
        if not passing_bytes < middle < blocked_bytes:
            continue
        (reply,) = path_probe.probe_paths([pair], agents, middle, ip_version)
        passing_bytes, blocked_bytes = (
            (middle, blocked_bytes) if path_probe.has_passed_both_ways(reply) else (passing_bytes, middle)
        )
    return passing_bytes


def _mtu_refusal(
    pair: Pair, packet_bytes: int, largest_passing: int, mtu_by_endpoint: MtuByEndpoint
) -> TreatmentRefused:
    a, b = pair
    limiting = [e for e in pair if mtu_by_endpoint[e.name] < packet_bytes]
    if limiting:
        hop = f"{limiting[0].name} {limiting[0].interface}"
        why = f"{hop} has MTU {mtu_by_endpoint[limiting[0].name]}"
        fix = f"raise the interface's MTU to {packet_bytes}"
    else:
        hop = f"between {a.name} {a.interface} and {b.name} {b.interface}"
        why = (
            f"the interfaces have this MTU, but the path between them passes at most {largest_passing} bytes"
        )
        fix = (
            f"raise the MTU of every vSwitch, port and router on the path to {packet_bytes}, "
            f"or request {largest_passing}"
        )
    return TreatmentRefused(
        f"packets of {packet_bytes} bytes do not pass from {a.name} to {b.name} unfragmented: {why}",
        where=hop,
        fix=fix,
        kind=MTU_BLACK_HOLE,
    )
