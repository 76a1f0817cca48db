"""Finds the largest packet that passes between hosts, and the hop that stops larger ones."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.agents.client import AgentClient
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
Mtus = Mapping[str, Any]


def prove_path_mtu(
    pairs: Sequence[Pair],
    agents: Mapping[str, AgentClient],
    mtus: Mtus,
    asked_mtu: int | None,
    ip_version: str,
    *,
    is_settling: bool,
) -> dict[str, Any]:
    """Prove the paths of all pairs in both directions.

    Args:
        pairs: Both endpoints of each pair.
        agents: The endpoints' agents.
        mtus: The MTU of each endpoint's interface.
        asked_mtu: Packet size to prove; None for the largest that passes.
        ip_version: A level of the factor `ip_version`.
        is_settling: Whether knobs were just set, so that links may still be down.

    Returns:
        The proved packet size and the round trips, as a trial stores them.

    Raises:
        TreatmentRefused: with the hop that stops the packets, and the fix.
    """
    least = MIN_IPV6_MTU if ip_version == "6" else MIN_IPV4_MTU
    _wait_for_connectivity(
        pairs, agents, least, ip_version, LINK_UP_TIMEOUT_S if is_settling else NEIGHBOUR_TIMEOUT_S
    )
    wanted = asked_mtu or min(int(mtu) for mtu in mtus.values())
    found = path_probe.probe_paths(pairs, agents, wanted, ip_version)
    narrow = [pair for pair, answer in zip(pairs, found, strict=True) if not path_probe.has_passed(answer)]
    if narrow:
        widest = min(_find_path_mtu(pair, agents, least, wanted, ip_version) for pair in narrow)
        if asked_mtu is not None:
            raise _mtu_refusal(narrow[0], wanted, widest, mtus)
        wanted = widest
    return {"path_mtu_proved": wanted, "path_rtt_us": [answer.get("rtt_us") for answer in found]}


def _wait_for_connectivity(
    pairs: Sequence[Pair], agents: Mapping[str, AgentClient], size: int, ip_version: str, timeout_s: float
) -> None:
    """Wait until small packets pass; raises TreatmentRefused if they do not."""
    until = time.monotonic() + timeout_s
    while True:
        found = path_probe.probe_paths(pairs, agents, size, ip_version)
        closed = [
            (p, answer) for p, answer in zip(pairs, found, strict=True) if not path_probe.has_passed(answer)
        ]
        if not closed:
            return
        if time.monotonic() >= until:
            break
    (a, b), answer = closed[0]
    raise TreatmentRefused(
        f"not even packets of {size} bytes pass from {a.name} ({a.address_for(ip_version)}) to {b.name} "
        f"({b.address_for(ip_version)}) and back: {answer['reason'] or 'lost'}",
        where=f"{a.name} {a.interface} > {b.name} {b.interface}",
        fix="check that both interfaces are up and in the same network, and that every firewall on the path "
        "passes TCP and UDP on the ports of testbed.ports",
    )


def _find_path_mtu(
    pair: Pair, agents: Mapping[str, AgentClient], passes: int, stops: int, ip_version: str
) -> int:
    """Return the largest packet that passes, by bisection from `passes` to `stops` with a likely first guess."""
    guesses = [COMMON_MTU + 1, COMMON_MTU]
    while stops - passes > 1:
        middle = guesses.pop() if guesses else (passes + stops) // 2
        if not passes < middle < stops:
            continue
        (answer,) = path_probe.probe_paths([pair], agents, middle, ip_version)
        passes, stops = (middle, stops) if path_probe.has_passed(answer) else (passes, middle)
    return passes


def _mtu_refusal(pair: Pair, wanted: int, widest: int, mtus: Mtus) -> TreatmentRefused:
    a, b = pair
    narrow = [e for e in pair if int(mtus[e.name]) < wanted]
    if narrow:
        hop = f"{narrow[0].name} {narrow[0].interface}"
        why = f"{hop} has MTU {mtus[narrow[0].name]}"
        fix = f"raise its MTU to {wanted}"
    else:
        hop = f"between {a.name} {a.interface} and {b.name} {b.interface}"
        why = f"both interfaces have that MTU, but the path between them passes at most {widest}"
        fix = f"raise the MTU of every vSwitch, port and router on the path to {wanted}, or request {widest}"
    return TreatmentRefused(
        f"packets of {wanted} bytes do not pass from {a.name} to {b.name} unfragmented: {why}",
        where=hop,
        fix=fix,
    )
