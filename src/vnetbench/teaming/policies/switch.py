"""Hash policies of physical switches: XOR of the chosen fields, over links or over eight buckets.

Vendors document which fields count, and Cisco how many buckets each link gets. The functions themselves are
simple XORs on the Catalyst switches of the published report; many newer switches use unpublished ones.
"""

from __future__ import annotations

from functools import partial, reduce
from operator import xor

from vnetbench.teaming.flows import Flow
from vnetbench.teaming.policies.policy import Policy
from vnetbench.teaming.prediction import Prediction, certain
from vnetbench.teaming.team import Team

BUCKETS = 8
"""A Catalyst shares eight buckets among the links of a channel: 3:3:2 for three links."""
_FIELDS_BY_SUFFIX = {
    "mac": ("mac",),
    "ip": ("ip",),
    "port": ("port",),
    "mixed-ip-port": ("ip", "port"),
}
_ATTRIBUTES = {
    ("src", "mac"): "source_mac", ("dst", "mac"): "destination_mac",
    ("src", "ip"): "source", ("dst", "ip"): "destination",
    ("src", "port"): "source_port", ("dst", "port"): "destination_port",
}  # fmt: skip
_SIDES = {"src": ("src",), "dst": ("dst",), "src-dst": ("src", "dst")}
_XOR_ASSUMPTION = "the switch XORs these fields; many newer switches use an unpublished hash"
_BUCKET_ASSUMPTION = f"{_XOR_ASSUMPTION}; its links take the eight buckets in turn"


def hash_flow_fields(names: tuple[str, ...], flow: Flow) -> int:
    """Return the XOR of the named fields as numbers; a protocol without ports counts as port 0."""
    return reduce(xor, (_to_number(getattr(flow, name)) for name in names), 0)


def count_buckets(links: int) -> list[int]:
    """Return how many of the eight buckets each link gets, such as [3, 3, 2]."""
    return [BUCKETS // links + (i < BUCKETS % links) for i in range(links)]


def _to_number(value: object) -> int:
    if isinstance(value, bytes):
        return int.from_bytes(value)
    return 0 if value is None else int(value)  # type: ignore[call-overload]  # address or port


def _choose_link(names: tuple[str, ...], flow: Flow, team: Team) -> Prediction:
    return certain(team.usable[hash_flow_fields(names, flow) % len(team.usable)], _XOR_ASSUMPTION)


def _choose_bucket(names: tuple[str, ...], flow: Flow, team: Team) -> Prediction:
    bucket = hash_flow_fields(names, flow) % BUCKETS
    return certain(team.usable[bucket % len(team.usable)], _BUCKET_ASSUMPTION)


def _make_policies() -> tuple[Policy, ...]:
    policies = []
    for side, sides in _SIDES.items():
        for suffix, fields in _FIELDS_BY_SUFFIX.items():
            names = tuple(_ATTRIBUTES[each, field] for field in fields for each in sides)
            policies += [
                Policy(
                    f"switch-{side}-{suffix}", "Switch", "XOR modulo the number of links", "hash",
                    "published report on teaming on ESX (2011); vendors name the fields only", names,
                    partial(_choose_link, names),
                ),
                Policy(
                    f"cisco-{side}-{suffix}", "Catalyst switch", "XOR, low 3 bits: eight buckets", "hash",
                    "Cisco, Understanding EtherChannel Load Balancing on Catalyst Switches", names,
                    partial(_choose_bucket, names), most_uplinks=BUCKETS,
                ),
            ]  # fmt: skip
    return tuple(policies)


POLICIES = _make_policies()
ALIASES: dict[str, str] = {}
