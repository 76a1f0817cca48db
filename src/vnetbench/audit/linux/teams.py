"""Facts of bonds and of Open vSwitch's bonds and bridges."""

from __future__ import annotations

import json
import re
from typing import Any

from vnetbench.audit.inventory import Inventory
from vnetbench.audit.linux.sections import Sections, parse_fields, parse_number

_BONDING = "/proc/net/bonding/"
_MODES = {
    "load balancing (round-robin)": "balance-rr",
    "fault-tolerance (active-backup)": "active-backup",
    "load balancing (xor)": "balance-xor",
    "fault-tolerance (broadcast)": "broadcast",
    "IEEE 802.3ad Dynamic link aggregation": "802.3ad",
    "transmit load balancing": "balance-tlb",
    "adaptive load balancing": "balance-alb",
}
_DEFAULT_REBALANCE_MS = 10_000


def read_bonds(sections: Sections, inventory: Inventory) -> None:
    """Add the bonds of the kernel, of /proc/net/bonding."""
    for section, text in sections.texts.items():
        if not section.startswith(_BONDING):
            continue
        bond = inventory.add_object("bond", section.removeprefix(_BONDING), "linux")
        head, *members = re.split(r"^Slave Interface:", text, flags=re.MULTILINE)
        fields = parse_fields(head)
        mode = fields.get("Bonding Mode", "")
        bond.add(
            "mode", next((name for words, name in _MODES.items() if mode.startswith(words)), None), section
        )
        bond.add("miimon_ms", parse_number(fields.get("MII Polling Interval (ms)")), section)
        bond.add("arp_interval_ms", parse_number(fields.get("ARP Polling Interval (ms)")) or 0, section)
        bond.add("hash_policy", fields.get("Transmit Hash Policy", "").split(" ")[0] or None, section)
        bond.add("lacp_rate", fields.get("LACP rate"), section)
        partner = fields.get("Partner Mac Address")
        bond.add("partner_missing", None if partner is None else partner == "00:00:00:00:00:00", section)
        states = [parse_fields(f"name:{member}") for member in members]
        up = [state for state in states if state.get("MII Status") == "up"]
        bond.add("members", len(states), section)
        bond.add("members_down", len(states) - len(up), section)
        if any("Aggregator ID" in state for state in up):
            bond.add("aggregator_count", len({state.get("Aggregator ID") for state in up}), section)
        if up:
            bond.add("member_speed_count", len({state.get("Speed") for state in up}), section)


def read_open_vswitch(sections: Sections, inventory: Inventory) -> None:
    """Add Open vSwitch's bridges and bonds, of `ovs-vsctl --format=json list`."""
    tables = {name: _read_table(sections, name) for name in ("Bridge", "Port", "Interface")}
    interfaces = {_uuid(row.get("_uuid")): row for row in tables["Interface"]}
    ports = {_uuid(row.get("_uuid")): row for row in tables["Port"]}
    for row in tables["Bridge"]:
        bridge = inventory.add_object("ovs_bridge", str(row.get("name")), "linux")
        source = "ovs-vsctl list Bridge"
        bridge.add("datapath", str(row.get("datapath_type") or "system"), source)
        members = [
            uuid
            for port in _members(row.get("ports"))
            for uuid in _members(ports.get(port, {}).get("interfaces"))
        ]
        kernel = [
            each for each in members if str(interfaces.get(each, {}).get("type", "-")) in ("", "system")
        ]
        bridge.add("kernel_ports", len(kernel), "ovs-vsctl list Interface")
    for row in tables["Port"]:
        links = _members(row.get("interfaces"))
        if len(links) < 2:
            continue
        bond = inventory.add_object("ovs_bond", str(row.get("name")), "linux")
        source = "ovs-vsctl list Port"
        mode, lacp = row.get("bond_mode"), row.get("lacp")
        bond.add("mode", mode if isinstance(mode, str) else "active-backup", source)
        bond.add("lacp", lacp if isinstance(lacp, str) else "off", source)
        interval = parse_number(_map(row.get("other_config")).get("bond-rebalance-interval"))
        bond.add("rebalance_ms", _DEFAULT_REBALANCE_MS if interval is None else interval, source)


def _read_table(sections: Sections, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table in the JSON form of ovs-vsctl: headings, and rows of values."""
    text = sections.text(f"ovs-vsctl --timeout=5 --format=json list {name}").strip()
    try:
        table = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return []
    headings, rows = (table.get("headings"), table.get("data")) if isinstance(table, dict) else (None, None)
    if not isinstance(headings, list) or not isinstance(rows, list):
        return []
    keys = [str(each) for each in headings]
    return [dict(zip(keys, row, strict=False)) for row in rows if isinstance(row, list)]


def _uuid(value: Any) -> str:
    """Return the text of `["uuid", TEXT]` (RFC 7047, section 5.1)."""
    return str(value[1]) if isinstance(value, list) and len(value) == 2 and value[0] == "uuid" else ""


def _members(value: Any) -> list[str]:
    """Return the UUIDs of one UUID or of `["set", [...]]`."""
    if isinstance(value, list) and len(value) == 2 and value[0] == "set" and isinstance(value[1], list):
        return [_uuid(each) for each in value[1]]
    return [_uuid(value)] if _uuid(value) else []


def _map(value: Any) -> dict[str, str]:
    """Return the entries of `["map", [[key, value] ...]]`."""
    pairs = value[1] if isinstance(value, list) and len(value) == 2 and value[0] == "map" else []
    entries = pairs if isinstance(pairs, list) else []
    return {str(pair[0]): str(pair[1]) for pair in entries if isinstance(pair, list) and len(pair) == 2}
