"""The proof of a path before load: unfragmented packets of the full MTU, both ways; where they stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.errors import BenchError
from vnetbench.lab.description import Testbed
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.netlink import mtu_of
from vnetbench.lab.refusal import TreatmentRefused

ATTEMPTS = 3
TIMEOUT_S = 0.3


def prove(
    testbed: Testbed, agents: Mapping[str, AgentClient], mtu: int, ip_version: str = "4"
) -> list[dict[str, Any]]:
    """Prove for every pair that packets of `mtu` bytes pass both ways unfragmented; one mapping a pair.

    Raises TreatmentRefused with the hop that stops them and the fix.
    """
    pairs = list(zip(testbed.side("a"), testbed.side("b"), strict=True))
    found = probe(pairs, agents, mtu, ip_version)
    for number, ((a, b), answer) in enumerate(zip(pairs, found, strict=True), start=1):
        if not passed(answer):
            raise _refusal(testbed, number, f"{a.name} to {b.name}", mtu, answer)
    return found


def probe(
    pairs: Sequence[tuple[Endpoint, Endpoint]],
    agents: Mapping[str, AgentClient],
    packet_bytes: int,
    ip_version: str,
) -> list[dict[str, Any]]:
    """Send packets of that size both ways between each pair; what came of it (path.probe), pair by pair."""
    listening = [(b, agents[b.name].send("path.listen", **b.listening(ip_version))) for _, b in pairs]
    paths = [agents[b.name].wait(future, "path.listen") for b, future in listening]
    try:
        probes = [
            agents[a.name].send(
                "path.probe",
                **{"from": a.address_of(ip_version)},
                to=b.address_of(ip_version),
                port=path["port"],
                packet_bytes=packet_bytes,
                attempts=ATTEMPTS,
                timeout_s=TIMEOUT_S,
            )
            for (a, b), path in zip(pairs, paths, strict=True)
        ]
        return [
            agents[a.name].wait(future, "path.probe") for (a, _), future in zip(pairs, probes, strict=True)
        ]
    finally:
        for (_, b), path in zip(pairs, paths, strict=True):
            agents[b.name].send("path.close", path=path["path"])


def passed(answer: Mapping[str, Any]) -> bool:
    """Whether packets passed both ways."""
    return bool(answer["forward"] and answer["back"])


def _refusal(
    testbed: Testbed, pair: int, route: str, mtu: int, answer: Mapping[str, Any]
) -> TreatmentRefused:
    ways = "either way" if not answer["forward"] else "on the way back"
    what = (
        f"packets of {mtu} bytes do not pass from {route} unfragmented ({ways}: {answer['reason'] or 'lost'})"
    )
    narrow = []
    for device in testbed.hops(pair):
        try:
            found = mtu_of(device.namespace, device.interface)
        except BenchError:
            return TreatmentRefused(
                f"{what}: the interface is not there", where=device.label, fix="vnetbench lab clean"
            )
        if found < mtu:
            narrow.append((device, found))
    if not narrow:
        return TreatmentRefused(
            f"{what}, though every hop has an MTU of {mtu} or more",
            where=" > ".join(d.label for d in testbed.hops(pair)),
            fix="look for a filter or a link that is down on the way (vnetbench lab exec)",
        )
    hops = "; ".join(f"{device.label} has MTU {found}" for device, found in narrow)
    return TreatmentRefused(
        f"{what}: {hops}",
        where=narrow[0][0].label,
        fix=f"raise its MTU to {mtu} (for a vSwitch: testbed.vswitch_mtu = {mtu}, or leave it out)",
    )
