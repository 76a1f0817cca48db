"""Faults planted into exports: the rule that must find each, and the values that change, by path."""

from __future__ import annotations

from typing import Any

VM, HOST, SWITCH = "virtualMachines.0", "hostSystems.0", "switches.0"
CONFIG, NETWORK = f"{VM}.config", f"{HOST}.config.network"
TEAMING = f"{NETWORK}.vswitch.0.spec.policy.nicTeaming"
IP_HASH = {f"{TEAMING}.policy": "loadbalance_ip"}

VSPHERE_FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("emulated_adapter_in_vsphere", {f"{CONFIG}.hardware.device.1._typeName": "VirtualE1000"}),
    ("hardware_version_without_vmxnet3", {f"{CONFIG}.version": "vmx-04"}),
    ("hot_add_disables_vnuma", {f"{CONFIG}.cpuHotAddEnabled": True, f"{CONFIG}.hardware.numCPU": 12}),
    ("vm_wider_than_node", {f"{CONFIG}.hardware.numCPU": 20}),
    ("uneven_sockets", {f"{CONFIG}.hardware.numCoresPerSocket": 3}),
    ("latency_sensitivity_without_reservation", {f"{CONFIG}.latencySensitivity.level": "high"}),
    ("cpu_affinity_set", {f"{CONFIG}.cpuAffinity": {"affinitySet": [2, 3]}}),
    ("cpu_limit_in_vsphere", {f"{CONFIG}.cpuAllocation.limit": 2000}),
    ("memory_limit_in_vsphere", {f"{CONFIG}.memoryAllocation.limit": 4096}),
    (
        "tools_missing_in_vsphere",
        {
            f"{VM}.guest.toolsVersionStatus2": "guestToolsNotInstalled",
            f"{VM}.guest.toolsRunningStatus": "guestToolsNotRunning",
        },
    ),
    ("tools_stopped_in_vsphere", {f"{VM}.guest.toolsRunningStatus": "guestToolsNotRunning"}),
    ("tools_old_in_vsphere", {f"{VM}.guest.toolsVersionStatus2": "guestToolsTooOld"}),
    (
        "invalid_coalescing",
        {f"{CONFIG}.extraConfig": [{"key": "ethernet0.coalescingScheme", "value": "fast"}]},
    ),
    ("scsi_controller_emulated", {f"{CONFIG}.hardware.device.0._typeName": "VirtualLsiLogicController"}),
    ("adapter_not_connected", {f"{CONFIG}.hardware.device.1.connectable.startConnected": False}),
    ("vmkernel_mtu_above_switch", {f"{NETWORK}.vswitch.0.mtu": 1500}),
    ("physical_mtu_below_switch", {f"{HOST}.networkHints.1.connectedSwitchPort.mtu": 1500}),
    ("ip_hash_with_standby", {**IP_HASH, f"{TEAMING}.nicOrder.standbyNic": ["vmnic2"]}),
    ("ip_hash_with_beacon_probing", {**IP_HASH, f"{TEAMING}.failureCriteria.checkBeacon": True}),
    (
        "ip_hash_over_two_switches",
        {**IP_HASH, f"{HOST}.networkHints.1.connectedSwitchPort.devId": "switch-2"},
    ),
    ("ip_hash_with_one_uplink", {**IP_HASH, f"{TEAMING}.nicOrder.activeNic": ["vmnic0"]}),
    (
        "uplink_speeds_differ",
        {
            f"{NETWORK}.pnic.1.linkSpeed.speedMb": 1000,
            f"{NETWORK}.pnic.1.validLinkSpecification": [{"speedMb": 1000, "duplex": True}],
        },
    ),
    ("active_uplink_down", {f"{NETWORK}.pnic.1.linkSpeed": None}),
    ("promiscuous_port_group", {f"{NETWORK}.vswitch.0.spec.policy.security.allowPromiscuous": True}),
    ("shaping_in_vsphere", {f"{NETWORK}.vswitch.0.spec.policy.shapingPolicy.enabled": True}),
    ("lag_passive", {f"{SWITCH}.config.lacpGroupConfig.0.mode": "passive"}),
    ("uplink_half_duplex", {f"{NETWORK}.pnic.0.linkSpeed.duplex": False}),
    ("uplink_speed_fixed", {f"{NETWORK}.pnic.0.spec": {"linkSpeed": {"speedMb": 10000, "duplex": True}}}),
    (
        "uplink_below_its_speed",
        {
            f"{NETWORK}.pnic.0.validLinkSpecification": [{"speedMb": 25000, "duplex": True}],
        },
    ),
    ("host_tso_off", {f"{HOST}.config.option.0.value": 0}),
    ("host_lro_off", {f"{HOST}.config.option.1.value": 0, f"{HOST}.config.option.2.value": 0}),
    ("host_saves_power", {f"{HOST}.config.powerSystemInfo.currentPolicy.shortName": "low"}),
]

DISCARDS = {"statistics.0.ReceivedDiscardedPackets": 5000}
WINDOWS_FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("emulated_adapter_in_windows", {"adapters.0.InterfaceDescription": "Intel(R) 82574L Gigabit Network"}),
    ("half_duplex", {"adapters.0.FullDuplex": False}),
    ("tools_missing_in_windows", {"vmtools_installed": False, "vmtools_running": False}),
    ("tools_stopped_in_windows", {"vmtools_running": False}),
    ("rss_off", {"rss.0.Enabled": False}),
    ("rss_off_globally", {"offload.0.ReceiveSideScaling": "Disabled"}),
    ("rsc_off", {"rsc.0.IPv4Enabled": False}),
    ("lso_off", {"lso.0.V2IPv4Enabled": False}),
    ("checksum_offload_off_in_windows", {"checksum.0.TcpIPv4Enabled": "Disabled"}),
    ("task_offload_disabled", {"offload.0.TaskOffload": "Disabled"}),
    ("autotuning_off", {"tcp.0.AutoTuningLevelLocal": "Disabled"}),
    ("autotuning_restricted", {"tcp.0.AutoTuningLevelLocal": "HighlyRestricted"}),
    ("power_plan_saves_power", {"power_plan": "Microsoft:PowerPlan\\{381b4222-f694-41f0-9685-ff5bb260df2e}"}),
    ("discards_with_small_buffers", {**DISCARDS, "advanced.1.DisplayValue": "1024"}),
    ("discards_with_short_ring", {**DISCARDS, "advanced.0.DisplayValue": "512"}),
    ("interrupt_moderation_off", {"advanced.2.DisplayValue": "Disabled"}),
]
