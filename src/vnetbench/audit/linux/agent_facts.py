"""The settings of a guest of the lab `qemu`, from its agent's facts.

Such a guest has no shell and no programs: its initramfs has the agent and the kernel's modules. The
agent reads the same files as `collect.sh`, and makes the same system calls as `ethtool` (docs/protocol.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vnetbench.audit.inventory import Inventory, InventoryObject

_SOURCE = "agent.facts"
_EMULATED_MODELS = {"e1000": "e1000", "e1000e": "e1000e", "pcnet": "pcnet32", "rtl8139": "rtl8139"}
"""Models as the agent names them, and as the rules do."""
_HYPERVISORS = {"KVM": "kvm", "QEMU": "kvm", "QEMU (TCG)": "kvm", "VMware": "vmware"}
_OFFLOADS = ("tso", "gso", "gro", "lro", "tx_checksum", "rx_checksum")
_OFF_OR_FIXED = "the agent reports an offload that is off like one that the driver lacks"


def read_agent_facts(facts: Mapping[str, Any], target: str) -> Inventory:
    """Return the inventory of a guest from the answer to `agent.facts`."""
    inventory = Inventory(target)
    machine = inventory.add_object("machine", "machine", "linux")
    machine.add("hypervisor", _HYPERVISORS.get(str(facts.get("hypervisor"))), _SOURCE)
    machine.add("cpus", facts["cpu"]["count"], _SOURCE)
    for name, key in (("tcp_receive_buffer_max", "rmem"), ("tcp_send_buffer_max", "wmem")):
        limits = facts["tcp"][key]
        machine.add(name, limits[-1] if limits else None, _SOURCE)
    for each in facts["interfaces"]:
        if each["name"] != "lo":
            _add_interface(inventory.add_object("interface", each["name"], "linux"), each, machine)
    return inventory


def _add_interface(item: InventoryObject, facts: Mapping[str, Any], machine: InventoryObject) -> None:
    for name in ("hypervisor", "cpus"):
        if name in machine.facts:
            item.facts[name] = machine.facts[name]
    adapter = facts["adapter"]
    item.add("is_physical", adapter is not None, _SOURCE)
    item.add("driver", facts["driver"], _SOURCE)
    item.add("mtu", facts["mtu"], _SOURCE)
    if adapter is not None:
        item.add("emulated_model", _EMULATED_MODELS.get(adapter, "none"), _SOURCE)
    if facts["offloads"] is not None:
        for name in _OFFLOADS:
            if name in facts["offloads"]:
                item.add(name, True, _SOURCE)
            elif name != "lro":  # A driver without LRO is no gap of the audit.
                item.unreadable[name] = _OFF_OR_FIXED
    if facts["rings"]:
        item.add("rx_ring", facts["rings"]["rx"] or None, _SOURCE)
        item.add("rx_ring_max", facts["rings"]["max_rx"] or None, _SOURCE)
    if channels := facts["channels"]:
        now, most = (channels[key] or channels[other] for key, other in _CHANNEL_KEYS)
        if now and most:
            item.add("queues", now, _SOURCE)
            item.add("queues_useful", min(most, int(item.value("cpus") or 1)), _SOURCE)


_CHANNEL_KEYS = (("combined", "rx"), ("max_combined", "max_rx"))
"""Keys of the channels in use and of the most channels. A driver has combined ones, or receive channels."""
