"""Facts of the interfaces of a Linux machine: sysfs, `ip`, ethtool and interrupts."""

from __future__ import annotations

import json
import re
from typing import Any

from vnetbench.audit.inventory import Inventory, InventoryObject
from vnetbench.audit.linux.sections import Sections, parse_cpu_list, parse_fields, parse_number

_EMULATED_MODELS = {
    ("0x8086", "0x100e"): "e1000", ("0x8086", "0x100f"): "e1000", ("0x8086", "0x10d3"): "e1000e",
    ("0x1022", "0x2000"): "pcnet32", ("0x10ec", "0x8139"): "rtl8139",
}  # fmt: skip
"""PCI ids of adapters that hypervisors emulate (QEMU's hw/net, VMware's KB 1001805)."""
_HYPERVISOR_SUBSYSTEMS = ("0x15ad", "0x1af4")
"""PCI subsystem vendors VMware and Red Hat: a real adapter has its maker's."""
_FEATURES = {
    "rx_checksum": "rx-checksumming",
    "tx_checksum": "tx-checksumming",
    "scatter_gather": "scatter-gather",
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "lro": "large-receive-offload",
}
_LINK_MODE = re.compile(r"\b(\d{2,6})base[A-Za-z0-9]*/(?:Full|Half)\b")
_TUNNEL_OVERHEAD_BYTES = {"vxlan": 50, "geneve": 50}
"""Outer Ethernet-in-UDP headers over IPv4: inner Ethernet 14, IPv4 20, UDP 8, VXLAN or Geneve 8."""
_PROMISCUOUS = 0x100
MIN_PACKETS = 10_000
"""Fewer packets give no meaningful share of losses."""


def read_interfaces(sections: Sections, inventory: Inventory, machine: InventoryObject) -> None:
    """Add all interfaces but the loopback."""
    links = _read_links(sections)
    bridges = {name for name, link in links.items() if link.get("kind") == "bridge"}
    machine.add("bridge_count", len(bridges), "ip -json -details link show")
    for section in sections.texts:
        if section.startswith("interface "):
            name = section.removeprefix("interface ")
            interface = inventory.add_object("interface", name, "linux")
            for fact in ("hypervisor", "cpus"):
                if fact in machine.facts:
                    interface.facts[fact] = machine.facts[fact]
            _add_sysfs(sections, interface, name)
            _add_master(sections, interface, name, links, machine)
            _add_losses(sections, interface, name)
            _add_ethtool(sections, interface, name)
            _add_receive_cpus(sections, interface, name)
            _add_tunnel(interface, links.get(name, {}), links)


def _read_links(sections: Sections) -> dict[str, dict[str, Any]]:
    """Return kind, MTU and lower interface of each link by name, of `ip -json -details link show`."""
    try:
        listing = json.loads(sections.text("ip -json -details link show") or "[]")
    except (ValueError, RecursionError):
        return {}
    links = {}
    for each in listing if isinstance(listing, list) else []:
        if isinstance(each, dict) and isinstance(each.get("ifname"), str):
            info = each.get("linkinfo")
            info = info if isinstance(info, dict) else {}
            data = info.get("info_data")
            links[each["ifname"]] = {
                "kind": info.get("info_kind"),
                "mtu": each.get("mtu"),
                "lower": data.get("link") if isinstance(data, dict) else None,
                "is_generic_xdp": isinstance(each.get("xdp"), dict) and each["xdp"].get("mode") == 2,
            }
    return links


def _add_sysfs(sections: Sections, interface: InventoryObject, name: str) -> None:
    folder = f"/sys/class/net/{name}"
    interface.add("is_physical", f"{folder}/device" in sections.values, f"{folder}/device")
    driver = sections.values.get(f"{folder}/device/driver", "").rpartition("/")[2]
    interface.add("driver", driver or None, f"{folder}/device/driver")
    interface.add("mtu", sections.number(f"{folder}/mtu"), f"{folder}/mtu")
    carrier = sections.number(f"{folder}/carrier")
    interface.add("carrier", carrier == 1, f"{folder}/carrier")
    duplex = sections.values.get(f"{folder}/duplex")
    interface.add("duplex", duplex if duplex in ("full", "half") else None, f"{folder}/duplex")
    speed = sections.number(f"{folder}/speed")
    interface.add("speed_mbps", speed if speed and speed > 0 else None, f"{folder}/speed")
    ids = tuple(sections.values.get(f"{folder}/device/{each}", "") for each in ("vendor", "device"))
    subsystem = sections.values.get(f"{folder}/device/subsystem_vendor")
    if subsystem:
        model = _EMULATED_MODELS.get((ids[0], ids[1]), "none")
        emulated = model if subsystem in _HYPERVISOR_SUBSYSTEMS else "none"
        interface.add("emulated_model", emulated, f"{folder}/device/device")


def _add_master(
    sections: Sections,
    interface: InventoryObject,
    name: str,
    links: dict[str, dict[str, Any]],
    machine: InventoryObject,
) -> None:
    folder = f"/sys/class/net/{name}"
    master = sections.values.get(f"{folder}/master", "").rpartition("/")[2]
    in_bridge = links.get(master, {}).get("kind") == "bridge"
    if in_bridge and isinstance(mtu := links[master]["mtu"], int):
        interface.add("master_mtu", mtu, "ip -json -details link show")
    forwards = in_bridge or master == "ovs-system" or machine.has("forwards")
    interface.add("forwards", forwards, f"{folder}/master, /proc/sys/net/ipv4/ip_forward")
    flags = re.fullmatch(r"0x([0-9a-f]{1,8})", sections.values.get(f"{folder}/flags", ""))
    if flags:
        is_promiscuous = bool(int(flags[1], 16) & _PROMISCUOUS) and not master
        interface.add("promiscuous_without_master", is_promiscuous, f"{folder}/flags")
    if name in links:
        interface.add("generic_xdp", links[name]["is_generic_xdp"], "ip -json -details link show")


def _add_losses(sections: Sections, interface: InventoryObject, name: str) -> None:
    folder = f"/sys/class/net/{name}/statistics"
    packets = sections.number(f"{folder}/rx_packets") or 0
    if packets < MIN_PACKETS:
        return
    lost = [sections.number(f"{folder}/{each}") for each in ("rx_missed_errors", "rx_fifo_errors")]
    known = [each for each in lost if each is not None]
    if known:  # Drivers may count the same packets in both.
        interface.add("rx_lost_ppm", max(known) / packets * 1e6, f"{folder}/rx_missed_errors, rx_fifo_errors")
    damaged = sections.number(f"{folder}/rx_crc_errors")
    if damaged is not None:
        interface.add("rx_crc_ppm", damaged / packets * 1e6, f"{folder}/rx_crc_errors")


def _add_ethtool(sections: Sections, interface: InventoryObject, name: str) -> None:
    settings, features = sections.text(f"ethtool {name}"), sections.fields(f"ethtool -k {name}")
    if not features and "installed:ethtool" not in sections.text("programs"):
        for fact in (*_FEATURES, "rx_ring", "rx_ring_max", "queues", "queues_useful", "speed_max_mbps"):
            interface.unreadable[fact] = "ethtool is not installed on the machine"
        return
    for fact, feature in _FEATURES.items():
        state = features.get(feature, "")
        if state in ("on", "off"):  # "off [fixed]" is no setting.
            interface.add(fact, state == "on", f"ethtool -k {name}")
    negotiation = parse_fields(settings).get("Auto-negotiation")
    supported, partner = (
        _highest_speed(settings, "Supported"),
        _highest_speed(settings, "Link partner advertised"),
    )
    interface.add("speed_max_mbps", supported, f"ethtool {name}")
    interface.add("partner_speed_max_mbps", partner, f"ethtool {name}")
    if negotiation in ("on", "off") and supported:
        interface.add("autonegotiation", negotiation == "on", f"ethtool {name}")
    for option, facts in (("-g", ("rx_ring", "rx_ring_max")), ("-l", ("queues", "queues_useful"))):
        most, _, now = sections.text(f"ethtool {option} {name}").partition("Current hardware settings:")
        # A driver has combined channels, or else receive channels.
        keys = ("RX",) if option == "-g" else ("Combined", "RX")
        for key in keys:
            values = [parse_number(parse_fields(part).get(key)) for part in (now, most)]
            if values[0] and values[1]:
                limit = min(values[1], int(interface.value("cpus") or 1)) if option == "-l" else values[1]
                interface.add(facts[0], values[0], f"ethtool {option} {name}")
                interface.add(facts[1], limit, f"ethtool {option} {name}")
                break


def _highest_speed(settings: str, head: str) -> int | None:
    """Return the highest speed of the link modes below a heading such as `Supported link modes:`."""
    _, found, rest = settings.partition(f"{head} link modes:")
    if not found:
        return None
    lines = rest.splitlines()
    # Further modes stand on lines of their own, without a heading.
    modes = [lines[0]]
    for line in lines[1:]:
        if ":" in line:
            break
        modes.append(line)
    return max((int(each) for each in _LINK_MODE.findall(" ".join(modes))), default=None)


def _add_receive_cpus(sections: Sections, interface: InventoryObject, name: str) -> None:
    """Add whether all interrupts of several queues reach one CPU."""
    if not interface.has("is_physical"):
        return
    lines = sections.text(f"interface {name}").splitlines()
    affinities = [line.partition(":")[2] for line in lines if "effective_affinity_list:" in line]
    maps = [line.partition(":")[2] for line in lines if "/rps_cpus:" in line]
    if len(affinities) < 2 or len(maps) < 2:
        return
    cpus = set().union(*map(parse_cpu_list, affinities))
    has_steering = any(re.search("[1-9a-f]", each) for each in maps)
    interface.add(
        "receives_on_one_cpu",
        len(cpus) == 1 and not has_steering,
        f"/proc/irq/*/effective_affinity_list, /sys/class/net/{name}/queues/*/rps_cpus",
    )


def _add_tunnel(interface: InventoryObject, link: dict[str, Any], links: dict[str, dict[str, Any]]) -> None:
    overhead = _TUNNEL_OVERHEAD_BYTES.get(str(link.get("kind")))
    underlay = links.get(str(link.get("lower")), {}).get("mtu")
    if overhead and isinstance(underlay, int):
        interface.add("tunnel_room", underlay - overhead, "ip -json -details link show")
