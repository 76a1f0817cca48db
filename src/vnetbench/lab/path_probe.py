"""The proof of a path before load: unfragmented packets of the full MTU, both ways; where they stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vnetbench.agents.client import AgentClient
from vnetbench.errors import BenchError
from vnetbench.lab.endpoint import Endpoint
from vnetbench.lab.errors import TreatmentRefused
from vnetbench.lab.netlink import mtu_of
from vnetbench.lab.netns.topology import Device
from vnetbench.study.factors.frame_sizes import packet_bytes
from vnetbench.study.factors.registry import format_level
from vnetbench.study.model import Level

ATTEMPTS = 3
TIMEOUT_S = 0.3
ROUNDS = 3
"""Of `ATTEMPTS` each, 2.7 s in all: a kernel whose neighbour's answer got lost asks again after a second."""


@dataclass(frozen=True)
class Hop:
    """One interface that a packet crosses."""

    label: str
    mtu: Callable[[], int]
    """Reads it; raises BenchError where the interface is not there."""


def hop_here(device: Device) -> Hop:
    """An interface in a namespace of this machine."""
    return Hop(device.label, lambda: mtu_of(device.namespace, device.interface))


def prove(
    pairs: Sequence[tuple[Endpoint, Endpoint]],
    agents: Mapping[str, AgentClient],
    mtu: int,
    ip_version: str,
    hops: Callable[[int], Sequence[Hop]],
    rounds: int = ROUNDS,
    delay_s: float = 0.0,
) -> list[dict[str, Any]]:
    """Prove for every pair that packets of `mtu` bytes pass both ways unfragmented; one mapping a pair.

    `hops` tells what a packet of a pair (from 1) crosses, from a to b. `rounds`: so often it is tried, one
    round after the other, until all pass. `delay_s` is what they take longer one way than by themselves.
    Raises TreatmentRefused with the hop that stops them and the fix.
    """
    timeout_s = TIMEOUT_S + 2 * delay_s
    found = probe(pairs, agents, mtu, ip_version, timeout_s)
    for _ in range(rounds - 1):
        if all(map(passed, found)):
            break
        found = probe(pairs, agents, mtu, ip_version, timeout_s)
    for number, ((a, b), answer) in enumerate(zip(pairs, found, strict=True), start=1):
        if not passed(answer):
            raise _refusal(hops(number), f"{a.name} to {b.name}", mtu, answer)
    return found


def probe(
    pairs: Sequence[tuple[Endpoint, Endpoint]],
    agents: Mapping[str, AgentClient],
    packet_bytes: int,
    ip_version: str,
    timeout_s: float = TIMEOUT_S,
) -> list[dict[str, Any]]:
    """Send packets of that size both ways between each pair; what came of it (path.probe), pair by pair."""
    listening = [(b, agents[b.name].send("path.listen", address=b.address_of(ip_version))) for _, b in pairs]
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
                timeout_s=timeout_s,
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


def check_frames(factors: Mapping[str, Level], mtu: int, where: str) -> None:
    """Raise TreatmentRefused where a treatment's largest frame does not fit a path of this proved MTU."""
    if "frame_size" in factors and (needed := packet_bytes(factors)) > mtu:
        raise TreatmentRefused(
            f"frame_size = {format_level('frame_size', factors['frame_size'])}: a packet of {needed} bytes "
            f"does not fit an MTU of {mtu}",
            where=where,
            fix=f"raise the MTU there to {needed}, or make frame_size smaller",
        )


def as_found(mtu: int, proved: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A proof as a trial keeps it."""
    return {"path_mtu_proved": mtu, "path_rtt_us": [answer.get("rtt_us") for answer in proved]}


def _refusal(hops: Sequence[Hop], route: str, mtu: int, answer: Mapping[str, Any]) -> TreatmentRefused:
    ways = "either way" if not answer["forward"] else "on the way back"
    what = (
        f"packets of {mtu} bytes do not pass from {route} unfragmented ({ways}: {answer['reason'] or 'lost'})"
    )
    narrow = []
    for hop in hops:
        try:
            found = hop.mtu()
        except BenchError:
            return TreatmentRefused(
                f"{what}: the interface is not there", where=hop.label, fix="vnetbench lab clean"
            )
        if found < mtu:
            narrow.append((hop, found))
    if not narrow:
        return TreatmentRefused(
            f"{what}, though every hop has an MTU of {mtu} or more",
            where=" > ".join(hop.label for hop in hops),
            fix="look for a filter or a link that is down on the way (vnetbench lab exec)",
        )
    where = "; ".join(f"{hop.label} has MTU {found}" for hop, found in narrow)
    return TreatmentRefused(
        f"{what}: {where}",
        where=narrow[0][0].label,
        fix=f"raise its MTU to {mtu} (for a vSwitch: testbed.vswitch_mtu = {mtu}, or leave it out)",
    )
