"""What spreads the flows better: other source ports or addresses, each verified by the same prediction."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from vnetbench.quantity import format_count_with_noun
from vnetbench.teaming.flows import PROTOCOLS_WITH_PORTS, Flow, format_end, format_mac
from vnetbench.teaming.policies.policy import Policy
from vnetbench.teaming.predict import TeamPrediction, predict_flows
from vnetbench.teaming.team import Team

_MAX_ADVISED_FLOWS = 1000
"""Advice for more flows would help nobody, and each flow costs up to some thousand predictions."""
_MAX_TRIED_PORTS = 2048
_FIRST_EPHEMERAL_PORT = 1024

Alternatives = Callable[[Flow], Iterator[Flow]]


@dataclass(frozen=True)
class Change:
    """One changed flow.

    Attributes:
        index: Index of the flow, from 0.
        field: What changes: "source port", "destination address" or "source MAC address".
        before: The value that the flow has.
        after: The value that it should have.
        uplink: Uplink that the changed flow takes.
    """

    index: int
    field: str
    before: str
    after: str
    uplink: int


@dataclass(frozen=True)
class Advice:
    """How the flows use more uplinks.

    Attributes:
        sentences: What to do, in words.
        changes: Changes of single flows, in their order; empty if none helps.
        result: Prediction with all changes; None without changes.
    """

    sentences: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    result: TeamPrediction | None = None


def advise(prediction: TeamPrediction) -> Advice:
    """Return what would spread the flows of a prediction evenly over its uplinks.

    Raises:
        BenchError: As `predict_flows`.
    """
    policy, team = prediction.policy, prediction.team
    if policy.decider not in ("hash", "table") or len(team.usable) == 1:
        return Advice(tuple(_general_advice(policy, team)))
    if any(each.forward.uplink is None for each in prediction.flows):
        return Advice((_open_advice(prediction),))
    counts = [
        load.certain_flows for i, load in enumerate(prediction.forward_load.uplinks) if i in team.usable
    ]
    if max(counts) - min(counts) <= 1:
        return Advice((_even_sentence(len(prediction.flows), len(team.usable)),))
    if len(prediction.flows) > _MAX_ADVISED_FLOWS:
        return Advice((f"Advice for single flows is limited to {_MAX_ADVISED_FLOWS} flows.",))
    flows = [each.flow for each in prediction.flows]
    changes = list(_find_changes(prediction))
    if not changes:
        return Advice(("No other port or last octet spreads these flows better.",))
    for change, flow in changes:
        flows[change.index] = flow
    result = predict_flows(flows, policy, team, prediction.reverse_policy, prediction.reverse_team)
    if result.forward_load.most_used <= prediction.forward_load.most_used and _busiest(result) >= _busiest(
        prediction
    ):
        return Advice(("No other port or last octet spreads these flows better.",))
    return Advice(_change_sentences(prediction, result, len(changes)), tuple(c for c, _ in changes), result)


def _even_sentence(flows: int, uplinks: int) -> str:
    if flows == 1:
        return "One flow uses one uplink. Only balance-rr spreads its packets, and they arrive out of order."
    if flows < uplinks:
        return f"{flows} flows cannot use more than {flows} uplinks."
    return "The flows are spread evenly."


def _busiest(prediction: TeamPrediction) -> int:
    return max(load.certain_flows for load in prediction.forward_load.uplinks)


def _change_sentences(before: TeamPrediction, after: TeamPrediction, changed: int) -> tuple[str, ...]:
    total = len(before.team.uplinks)
    load, answers = after.forward_load, after.reverse_load
    text = (
        f"With {format_count_with_noun(changed, 'change')}, the flows use {load.most_used} of {total} uplinks"
        f" instead of {before.forward_load.most_used}"
    )
    if answers.least_used == answers.most_used:
        return (f"{text}; the answers use {answers.most_used}.",)
    return (f"{text}.",)


def _find_changes(prediction: TeamPrediction) -> Iterator[tuple[Change, Flow]]:
    """Yield changed flows, so that each usable uplink gets as many flows as any other, or one more.

    Flows stay where they are as long as their uplink has room.
    """
    team, policy = prediction.team, prediction.policy
    base, extra = divmod(len(prediction.flows), len(team.usable))
    counts = dict.fromkeys(team.usable, 0)
    movable = []
    for index, each in enumerate(prediction.flows):
        uplink = each.forward.uplink
        assert uplink is not None
        if counts[uplink] < base:
            counts[uplink] += 1
        elif counts[uplink] == base and extra:
            counts[uplink] += 1
            extra -= 1
        else:
            movable.append(index)
    known = {each.flow for each in prediction.flows}
    for index in movable:
        flow = prediction.flows[index].flow
        targets = [i for i in counts if counts[i] < base] or [i for i in counts if counts[i] == base]
        found = _find_alternative(index, flow, policy, team, targets, known)
        if found is not None:
            change, changed = found
            counts[change.uplink] += 1
            known.add(changed)
            yield found


def _find_alternative(
    index: int, flow: Flow, policy: Policy, team: Team, targets: Sequence[int], known: set[Flow]
) -> tuple[Change, Flow] | None:
    """Return the first flow that differs in one field and takes one of the target uplinks."""
    for field, alternatives in _alternatives(policy, flow):
        for changed in alternatives(flow):
            uplink = policy.predict(changed, team).uplink
            if uplink in targets and changed not in known:
                assert uplink is not None
                return Change(index, field, _value(field, flow), _value(field, changed), uplink), changed
    return None


def _alternatives(policy: Policy, flow: Flow) -> Iterator[tuple[str, Alternatives]]:
    """Yield the fields to change that the policy hashes: ports first, because they cost nothing."""
    has_ports = flow.protocol is None or flow.protocol in PROTOCOLS_WITH_PORTS
    if "source_port" in policy.needs and has_ports and flow.inner is None:
        yield "source port", _other_source_ports
    if "destination" in policy.needs and flow.inner is None:
        yield "destination address", _other_destinations
    elif "source" in policy.needs and flow.inner is None:
        yield "source address", _other_sources
    if "source_mac" in policy.needs and "source" not in policy.needs:
        yield "source MAC address", _other_source_macs


def _other_source_ports(flow: Flow) -> Iterator[Flow]:
    assert flow.source_port is not None
    for step in range(1, _MAX_TRIED_PORTS):
        port = flow.source_port + step
        if port > 65535:
            port += _FIRST_EPHEMERAL_PORT - 65536
        yield replace(flow, source_port=port)


def _other_destinations(flow: Flow) -> Iterator[Flow]:
    for address in _neighbours(flow.destination):
        yield replace(flow, destination=address)


def _other_sources(flow: Flow) -> Iterator[Flow]:
    for address in _neighbours(flow.source):
        yield replace(flow, source=address)


def _other_source_macs(flow: Flow) -> Iterator[Flow]:
    assert flow.source_mac is not None
    for step in range(1, 256):
        yield replace(flow, source_mac=flow.source_mac[:5] + bytes(((flow.source_mac[5] + step) % 256,)))


def _neighbours(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None,
) -> Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Yield addresses with another last octet from 1 to 254, the next one first."""
    assert address is not None
    start = int(address) & ~0xFF
    for step in range(1, 255):
        octet = (int(address) % 256 + step - 1) % 254 + 1
        if start + octet != int(address):
            yield type(address)(start + octet)


def _value(field: str, flow: Flow) -> str:
    if field == "source port":
        return str(flow.source_port)
    if field == "source MAC address":
        return format_mac(flow.source_mac or b"")
    return format_end(flow.source if field == "source address" else flow.destination, None, None)


def _general_advice(policy: Policy, team: Team) -> Iterator[str]:
    if len(team.usable) == 1:
        yield (
            "The team has one uplink: add uplinks."
            if len(team.uplinks) == 1
            else "Only one uplink is up: bring up the others, or add uplinks."
        )
    elif policy.decider == "active member":
        yield (
            "One uplink carries everything. To use more, bundle the links on the switch too and use a hash"
            " policy such as layer3+4 or ip-hash, or spread VMs with port-id."
        )
    elif policy.decider == "load":
        yield "The policy moves traffic by load itself; one flow still uses one uplink at a time."


def _open_advice(prediction: TeamPrediction) -> str:
    policy = prediction.policy
    if any(each.forward.is_ambiguous for each in prediction.flows):
        return "Use 2, 4 or 8 uplinks (a power of two): then both published formulas name the same uplink."
    if policy.family == "ESXi":
        return (
            "A port uses one uplink whatever its flows are: give the VM more network adapters, or use ip-hash"
            " with a static channel on the switch."
        )
    if prediction.team.uplink_by_bucket:
        return "A bucket gets its uplink when it is first used: send the flows, then give the state again."
    if policy.name == "encap3+4" and prediction.team.packets_carry_hash:
        return "If the packets carry no hash, as frames of a raw socket do not, add --assume no-packet-hash."
    if policy.family == "Open vSwitch" and not prediction.team.has_random_datapath_hash:
        return "Give the table of the bond with --state, so that changes can be verified."
    return "No change can be verified, because what the uplink depends on is not known."
