"""Facts of ESXi hosts in an export: physical adapters, switches, port groups, VMkernel adapters."""

from __future__ import annotations

from typing import Any

from vnetbench.audit.files.json_path import get, get_flag, get_list, get_text, get_whole, walk
from vnetbench.audit.inventory import Inventory, InventoryObject

_OPTIONS = {
    "Net.UseHwTSO": "hardware_tso",
    "Net.Vmxnet3HwLRO": "vmxnet3_lro",
    "Net.Vmxnet3SwLRO": "software_lro",
}


def add_host(inventory: Inventory, source: dict[str, Any], objects: list[dict[str, Any]]) -> None:
    """Add a host with its adapters and switches."""
    name = get_text(source, "name") or get_text(source, "summary", "config", "name") or "host"
    host = inventory.add_object("host", name, "vsphere")
    policy = get_text(source, "config", "powerSystemInfo", "currentPolicy", "shortName")
    host.add("power_policy", policy or None, "config.powerSystemInfo.currentPolicy")
    for option in get_list(source, "config", "option"):
        fact = _OPTIONS.get(get_text(option, "key"))
        if fact:
            host.add(fact, get_whole(option, "value"), f"config.option {get_text(option, 'key')}")
    network = get(source, "config", "network")
    # Hints inside the host are its own. Other exports have one host, and its hints beside it.
    hints = [each for each in walk(source) if get(each, "connectedSwitchPort")]
    hints = hints or [each for each in objects if get(each, "connectedSwitchPort")]
    ports = {get_text(hint, "device"): hint for hint in hints}
    nics = {get_text(nic, "key"): nic for nic in get_list(network, "pnic")}
    switches = [*get_list(network, "vswitch"), *get_list(network, "proxySwitch")]
    mtu_by_nic = {
        key: get_whole(each, "mtu")
        for each in switches
        for key in get_list(each, "pnic")
        if isinstance(key, str)
    }
    for key, nic in nics.items():
        _add_uplink(inventory, name, nic, mtu_by_nic.get(key), ports)
    devices = {get_text(nic, "device"): nic for nic in nics.values()}
    for switch in get_list(network, "vswitch"):
        _add_team(
            inventory, f"{name} {get_text(switch, 'name')}", get(switch, "spec", "policy"), devices, ports
        )
    for group in get_list(network, "portgroup"):
        if get(group, "spec", "policy", "nicTeaming") or get(group, "spec", "policy", "security"):
            label = f"{name} port group {get_text(group, 'spec', 'name')}"
            computed = get(group, "computedPolicy")
            policy = computed if get(computed, "nicTeaming") else get(group, "spec", "policy")
            _add_team(inventory, label, policy, devices, ports)
    _add_vmkernel_adapters(inventory, name, network)


def add_distributed_switch(inventory: Inventory, source: dict[str, Any], groups: list[Any]) -> None:
    """Add the link aggregation groups of a distributed switch."""
    switch = get_text(source, "name") or get_text(source, "config", "name") or "distributed switch"
    for group in groups:
        team = inventory.add_object("team", f"{switch} {get_text(group, 'name')}", "vsphere")
        team.add("lag_mode", get_text(group, "mode") or None, "config.lacpGroupConfig")


def _add_uplink(
    inventory: Inventory,
    host: str,
    nic: dict[str, Any],
    switch_mtu: int | None,
    ports: dict[str, dict[str, Any]],
) -> None:
    device = get_text(nic, "device")
    uplink = inventory.add_object("uplink", f"{host} {device}", "vsphere")
    speed = get_whole(nic, "linkSpeed", "speedMb")
    uplink.add("link_up", speed is not None, "config.network.pnic: linkSpeed")
    uplink.add("speed_mbps", speed, "config.network.pnic: linkSpeed")
    uplink.add("full_duplex", get_flag(nic, "linkSpeed", "duplex"), "config.network.pnic: linkSpeed")
    speeds = [get_whole(each, "speedMb") for each in get_list(nic, "validLinkSpecification")]
    known = [each for each in speeds if each is not None]
    uplink.add("speed_max_mbps", max(known, default=None), "config.network.pnic: validLinkSpecification")
    fixed = get(nic, "spec", "linkSpeed") is not None
    uplink.add("speed_fixed", fixed, "config.network.pnic: spec.linkSpeed")
    uplink.add("switch_mtu", switch_mtu, "config.network.vswitch: mtu")
    physical = get_whole(ports.get(device), "connectedSwitchPort", "mtu")
    uplink.add("physical_mtu", physical or None, "connectedSwitchPort.mtu")


def _add_team(
    inventory: Inventory,
    name: str,
    policy: Any,
    devices: dict[str, dict[str, Any]],
    ports: dict[str, dict[str, Any]],
) -> None:
    team = inventory.add_object("team", name, "vsphere")
    teaming = get(policy, "nicTeaming")
    team.add("policy", get_text(teaming, "policy") or None, "nicTeaming.policy")
    active = [each for each in get_list(teaming, "nicOrder", "activeNic") if isinstance(each, str)]
    if teaming is not None:
        team.add("active_uplinks", len(active), "nicTeaming.nicOrder")
        team.add("standby_uplinks", len(get_list(teaming, "nicOrder", "standbyNic")), "nicTeaming.nicOrder")
    team.add(
        "beacon_probing", get_flag(teaming, "failureCriteria", "checkBeacon"), "nicTeaming.failureCriteria"
    )
    team.add("promiscuous", get_flag(policy, "security", "allowPromiscuous"), "security.allowPromiscuous")
    team.add("shaped", get_flag(policy, "shapingPolicy", "enabled"), "shapingPolicy.enabled")
    _add_links(team, active, devices, ports)


def _add_links(
    team: InventoryObject,
    active: list[str],
    devices: dict[str, dict[str, Any]],
    ports: dict[str, dict[str, Any]],
) -> None:
    known = [devices[device] for device in active if device in devices]
    speeds = [get_whole(nic, "linkSpeed", "speedMb") for nic in known]
    if known:
        team.add(
            "active_uplinks_down", sum(speed is None for speed in speeds), "config.network.pnic: linkSpeed"
        )
        up = {speed for speed in speeds if speed is not None}
        team.add("uplink_speed_count", len(up), "config.network.pnic: linkSpeed")
    switches = {get_text(ports.get(device), "connectedSwitchPort", "devId") for device in active} - {""}
    if switches:
        team.add("physical_switch_count", len(switches), "connectedSwitchPort.devId")


def _add_vmkernel_adapters(inventory: Inventory, host: str, network: Any) -> None:
    mtu_by_switch = {get_text(each, "name"): get_whole(each, "mtu") for each in get_list(network, "vswitch")}
    switch_by_group = {
        get_text(group, "spec", "name"): get_text(group, "spec", "vswitchName")
        for group in get_list(network, "portgroup")
    }
    mtu_by_uuid = {
        get_text(each, "dvsUuid"): get_whole(each, "mtu") for each in get_list(network, "proxySwitch")
    }
    for vnic in get_list(network, "vnic"):
        adapter = inventory.add_object("vmkernel", f"{host} {get_text(vnic, 'device')}", "vsphere")
        adapter.add("mtu", get_whole(vnic, "spec", "mtu"), "config.network.vnic: spec.mtu")
        switch_mtu = mtu_by_switch.get(switch_by_group.get(get_text(vnic, "portgroup"), ""))
        uuid = get_text(vnic, "spec", "distributedVirtualPort", "switchUuid")
        adapter.add("switch_mtu", switch_mtu or mtu_by_uuid.get(uuid), "config.network.vswitch: mtu")
