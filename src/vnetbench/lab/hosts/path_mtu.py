"""The path between hosts: how large a packet passes it, and what stands in the way of a larger one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.lab import path_probe
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.study.factors.testbed_factors import LEAST_MTU6

LEAST_MTU = 576
"""What every path of IPv4 carries (RFC 791)."""
COMMON_MTU = 1500
SETTLING_S = 15.0
"""As long as an adapter may take to have its link again after a knob was set."""
RESOLVING_S = 2.0
"""As long as it takes to find a neighbour after the first answer got lost."""

Pair = tuple[Endpoint, Endpoint]
Mtus = Mapping[str, Any]


def prove(
    pairs: Sequence[Pair],
    agents: Mapping[str, AgentClient],
    mtus: Mtus,
    asked_mtu: int | None,
    ip_version: str,
    *,
    is_settling: bool,
) -> dict[str, Any]:
    """Prove the paths of all pairs both ways: with packets of `asked_mtu` bytes, else of as many as pass.

    `mtus` are those of the endpoints' interfaces. Returns the size that was proved and the round trips.
    Raises TreatmentRefused with the hop that stops them and the fix.
    """
    least = LEAST_MTU6 if ip_version == "6" else LEAST_MTU
    _await_any(pairs, agents, least, ip_version, SETTLING_S if is_settling else RESOLVING_S)
    wanted = asked_mtu or min(int(mtu) for mtu in mtus.values())
    found = path_probe.probe(pairs, agents, wanted, ip_version)
    narrow = [pair for pair, answer in zip(pairs, found, strict=True) if not path_probe.passed(answer)]
    if narrow:
        widest = min(_widest(pair, agents, least, wanted, ip_version) for pair in narrow)
        if asked_mtu is not None:
            raise _too_narrow(narrow[0], wanted, widest, mtus)
        wanted = widest
    return {"path_mtu_proved": wanted, "path_rtt_us": [answer.get("rtt_us") for answer in found]}


def _await_any(
    pairs: Sequence[Pair], agents: Mapping[str, AgentClient], size: int, ip_version: str, patience_s: float
) -> None:
    """Wait until small packets pass; raises TreatmentRefused where they do not."""
    until = time.monotonic() + patience_s
    while True:
        found = path_probe.probe(pairs, agents, size, ip_version)
        closed = [
            (p, answer) for p, answer in zip(pairs, found, strict=True) if not path_probe.passed(answer)
        ]
        if not closed:
            return
        if time.monotonic() >= until:
            break
    (a, b), answer = closed[0]
    raise TreatmentRefused(
        f"not even packets of {size} bytes pass from {a.name} ({a.address_of(ip_version)}) to {b.name} "
        f"({b.address_of(ip_version)}) and back: {answer['reason'] or 'lost'}",
        where=f"{a.name} {a.interface} > {b.name} {b.interface}",
        fix="see that the interfaces are up and the addresses meet, and let TCP and UDP of the ports that "
        "testbed.ports names through every firewall on the way",
    )


def _widest(pair: Pair, agents: Mapping[str, AgentClient], passes: int, stops: int, ip_version: str) -> int:
    """The largest packet that passes: `passes` does, `stops` does not. The likely one is tried first."""
    guesses = [COMMON_MTU + 1, COMMON_MTU]
    while stops - passes > 1:
        middle = guesses.pop() if guesses else (passes + stops) // 2
        if not passes < middle < stops:
            continue
        (answer,) = path_probe.probe([pair], agents, middle, ip_version)
        passes, stops = (middle, stops) if path_probe.passed(answer) else (passes, middle)
    return passes


def _too_narrow(pair: Pair, wanted: int, widest: int, mtus: Mtus) -> TreatmentRefused:
    a, b = pair
    narrow = [e for e in pair if int(mtus[e.name]) < wanted]
    if narrow:
        hop = f"{narrow[0].name} {narrow[0].interface}"
        why = f"{hop} has MTU {mtus[narrow[0].name]}"
        fix = f"raise its MTU to {wanted}"
    else:
        hop = f"between {a.name} {a.interface} and {b.name} {b.interface}"
        why = f"both interfaces have it, and what is between them passes {widest} at most"
        fix = f"raise the MTU of every vSwitch, port and router on the way to {wanted}, or ask for {widest}"
    return TreatmentRefused(
        f"packets of {wanted} bytes do not pass from {a.name} to {b.name} unfragmented: {why}",
        where=hop,
        fix=fix,
    )
