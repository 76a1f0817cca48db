"""ESXi's teaming policies: originating port ID, source MAC address, IP hash and physical load.

VMware documents no formula for the first two, and two different ones for the third.
"""

from __future__ import annotations

from vnetbench.teaming.flows import Flow
from vnetbench.teaming.policies.policy import Policy
from vnetbench.teaming.prediction import Prediction, certain, undecided
from vnetbench.teaming.team import Team

_FAMILY = "ESXi"
_GUIDE = "VMware vSphere Networking, "
_HOW_TO_READ_UPLINK_OF_PORT = "`esxcli network vm port list -w WORLD` prints the port's uplink"


FORMULA_NAMES = ("the last octets", "the whole addresses")
"""What the two formulas of IP hash read, in the order of `Prediction.uplink_by_formula`."""


def hash_last_octets(flow: Flow) -> int:
    """Return the XOR of the last octets of both addresses (vSphere Networking, Route Based on IP Hash)."""
    assert flow.source is not None and flow.destination is not None
    return flow.source.packed[-1] ^ flow.destination.packed[-1]


def hash_whole_addresses(flow: Flow) -> int:
    """Return the XOR of both addresses as numbers (VMware KB 1007371 and the KB blog of March 2013)."""
    assert flow.source is not None and flow.destination is not None
    return int(flow.source) ^ int(flow.destination)


def _choose_ip_hash(flow: Flow, team: Team) -> Prediction:
    count = len(team.usable)
    assert flow.source is not None
    uplinks = tuple(team.usable[h(flow) % count] for h in (hash_last_octets, hash_whole_addresses))
    if len(set(uplinks)) > 1:
        return Prediction(
            None,
            tuple(sorted(uplinks)),
            is_ambiguous=True,
            depends_on=f"the description that holds: the last octets give uplink {uplinks[0]},"
            f" the whole addresses give uplink {uplinks[1]}",
            uplink_by_formula=uplinks,
        )
    is_ipv6 = flow.source.version == 6
    return certain(
        uplinks[0], "ESXi treats IPv6 addresses as IPv4 ones; no formula is published" if is_ipv6 else None
    )


def _choose_port_id(flow: Flow, team: Team) -> Prediction:
    known = None if flow.source_port_id is None else team.uplink_by_port_id.get(flow.source_port_id)
    if known is None and flow.source_mac is not None:
        known = team.uplink_by_mac.get(flow.source_mac)
    if known is not None and team.uplinks[known].is_up:
        return certain(known)
    return undecided(
        team.usable,
        f"the uplink that the virtual switch gave to the VM's port; {_HOW_TO_READ_UPLINK_OF_PORT}",
        _port_group(flow),
    )


def _choose_source_mac(flow: Flow, team: Team) -> Prediction:
    assert flow.source_mac is not None
    known = team.uplink_by_mac.get(flow.source_mac)
    if known is not None and team.uplinks[known].is_up:
        return certain(known)
    return undecided(
        team.usable,
        f"a hash of the MAC address that VMware does not publish; {_HOW_TO_READ_UPLINK_OF_PORT}",
        flow.source_mac.hex(),
    )


def _choose_physical_load(flow: Flow, team: Team) -> Prediction:
    text = "the load: every 30 s, a port moves from an uplink that is used by more than 75 %"
    known = None if flow.source_port_id is None else team.uplink_by_port_id.get(flow.source_port_id)
    if known is not None and team.uplinks[known].is_up:
        return certain(known, "no port moved since the dump was written")
    return undecided(team.usable, f"{text}; {_HOW_TO_READ_UPLINK_OF_PORT}", _port_group(flow))


def _port_group(flow: Flow) -> str | None:
    """Return what identifies the sender's port: its ID, else its MAC address, else its IP address."""
    for value in (flow.source_port_id, flow.source_mac, flow.source):
        if value is not None:
            return str(value)
    return None


POLICIES = (
    Policy(
        "port-id", _FAMILY, "one uplink for each port of the virtual switch", "table",
        _GUIDE + "Route Based on Originating Virtual Port", (), _choose_port_id,
        answers="learned",
    ),
    Policy(
        "source-mac", _FAMILY, "one uplink for each MAC address", "table",
        _GUIDE + "Route Based on Source MAC Hash", ("source_mac",), _choose_source_mac,
        answers="learned",
    ),
    Policy(
        "ip-hash", _FAMILY, "XOR of both IP addresses", "hash",
        _GUIDE + "Route Based on IP Hash; VMware KB 1007371", ("source", "destination"), _choose_ip_hash,
    ),
    Policy(
        "physical-load", _FAMILY, "one uplink for each port, moved by load", "load",
        _GUIDE + "Route Based on Physical NIC Load", (), _choose_physical_load,
        answers="learned",
    ),
)  # fmt: skip

ALIASES = {
    "lbt": "physical-load",
    "srcport": "port-id",
    "portid": "port-id",
    "iphash": "ip-hash",
    "mac": "source-mac",
    "explicit": "active-backup",
    "explicit-failover": "active-backup",
}
"""Other names, among them those of `esxcli network vswitch standard policy failover get`."""
